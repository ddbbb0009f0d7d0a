/**
 * Dot products of one query of 16-bit numbers with many rows of 8-bit ones, by the SIMD instructions of WebAssembly.
 * Integers, so that the result is exact: rows times query must stay below 2³¹. Memory, in bytes:
 *
 * ```text
 * 0     the query, 2 · stride      stride: numbers a row, a multiple of 16, zeros behind the last
 * at    row numbers, 4 each        replaced by the dot products, up to `end`
 * rows  the rows, stride each
 * ```
 */
export interface DotKernel {
  readonly memory: {
    readonly buffer: ArrayBuffer
    /** By pages of 64 KiB; old views of the buffer are empty from then on. Throws a RangeError where there is no room. */
    readonly grow: (pages: number) => number
  }
  /** At least one: `at` below `end`. */
  readonly dots: (at: number, end: number, rows: number, stride: number) => void
}

/** With a memory of its own, of one page. `undefined`: this machine has no such instructions, or no room. */
export const make = (): DotKernel | undefined => {
  try {
    return compiled === undefined ? undefined : new compiled.Instance(compiled.module).exports
  } catch {
    return undefined // too many memories: the address space is reserved for each
  }
}

interface Engine {
  readonly validate: (bytes: Uint8Array) => boolean
  readonly Module: new(bytes: Uint8Array) => object
  readonly Instance: new(module: object) => { readonly exports: DotKernel }
}

/** Each line: the bytes, and what they say. */
export const listing = `
00 61 73 6d 01 00 00 00                          ; module, version 1
01 08 01 60 04 7f 7f 7f 7f 00                    ; type (param i32 i32 i32 i32)
03 02 01 00                                      ; func of that type
05 03 01 00 01                                   ; memory of 1 page
07 11 02                                         ; export
06 6d 65 6d 6f 72 79 02 00                       ;   "memory"
04 64 6f 74 73 00 00                             ;   "dots"
0a a9 01 01 a6 01                                ; code; 0 at, 1 end, 2 rows, 3 stride
02 03 7f 02 7b                                   ; locals 4 row, 5 stop, 6 query, 7 even, 8 odd
03 40                                            ; loop
20 02                                            ; local.get 2
20 00                                            ; local.get 0
28 02 00                                         ; i32.load 0
20 03                                            ; local.get 3
6c                                               ; i32.mul
6a                                               ; i32.add
22 04                                            ; local.tee 4
20 03                                            ; local.get 3
6a                                               ; i32.add
21 05                                            ; local.set 5
41 00                                            ; i32.const 0
21 06                                            ; local.set 6
fd 0c 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 ; v128.const 0
22 07                                            ; local.tee 7
21 08                                            ; local.set 8
03 40                                            ; loop
20 04                                            ; local.get 4
fd 01 03 00                                      ; v128.load8x8_s 0
20 06                                            ; local.get 6
fd 00 04 00                                      ; v128.load 0
fd ba 01                                         ; i32x4.dot_i16x8_s
20 07                                            ; local.get 7
fd ae 01                                         ; i32x4.add
21 07                                            ; local.set 7
20 04                                            ; local.get 4
fd 01 03 08                                      ; v128.load8x8_s 8
20 06                                            ; local.get 6
fd 00 04 10                                      ; v128.load 16
fd ba 01                                         ; i32x4.dot_i16x8_s
20 08                                            ; local.get 8
fd ae 01                                         ; i32x4.add
21 08                                            ; local.set 8
20 06                                            ; local.get 6
41 20                                            ; i32.const 32
6a                                               ; i32.add
21 06                                            ; local.set 6
20 04                                            ; local.get 4
41 10                                            ; i32.const 16
6a                                               ; i32.add
22 04                                            ; local.tee 4
20 05                                            ; local.get 5
49                                               ; i32.lt_u
0d 00                                            ; br_if 0
0b                                               ; end
20 00                                            ; local.get 0
20 07                                            ; local.get 7
20 08                                            ; local.get 8
fd ae 01                                         ; i32x4.add
22 07                                            ; local.tee 7
fd 1b 00                                         ; i32x4.extract_lane 0
20 07                                            ; local.get 7
fd 1b 01                                         ; i32x4.extract_lane 1
6a                                               ; i32.add
20 07                                            ; local.get 7
fd 1b 02                                         ; i32x4.extract_lane 2
6a                                               ; i32.add
20 07                                            ; local.get 7
fd 1b 03                                         ; i32x4.extract_lane 3
6a                                               ; i32.add
36 02 00                                         ; i32.store 0
20 00                                            ; local.get 0
41 04                                            ; i32.const 4
6a                                               ; i32.add
22 00                                            ; local.tee 0
20 01                                            ; local.get 1
49                                               ; i32.lt_u
0d 00                                            ; br_if 0
0b                                               ; end
0b                                               ; end
`

const compiled = ((): (Engine & { readonly module: object }) | undefined => {
  // as: the types of WebAssembly come with a browser's, which are not ours to ask for
  const engine = Reflect.get(globalThis, "WebAssembly") as Engine | undefined
  const bytes = Uint8Array.from(
    listing.match(/\b[0-9a-f]{2}\b(?=[^;\n]*;)/g) ?? [],
    (byte) => Number.parseInt(byte, 16)
  )
  try {
    if (engine?.validate(bytes) !== true) return undefined
    return {
      validate: engine.validate,
      Module: engine.Module,
      Instance: engine.Instance,
      module: new engine.Module(bytes)
    }
  } catch {
    return undefined // a host may forbid code that is made while it runs
  }
})()
