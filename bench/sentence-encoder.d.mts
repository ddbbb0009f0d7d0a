export const pieces: (text: string) => ReadonlyArray<string>
export const mean: (vectors: ReadonlyArray<ReadonlyArray<number>>) => Float32Array
