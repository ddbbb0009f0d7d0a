export interface Metrics {
  readonly "recall@5": number
  readonly "recall@10": number
  readonly "recall@20": number
  readonly "ndcg@10": number
  readonly mrr: number
}
export declare const names: ReadonlyArray<keyof Metrics>
export declare const measure: (ranking: ReadonlyArray<string>, grades: ReadonlyMap<string, number>) => Metrics
export declare const interval: (
  values: ReadonlyArray<number>,
  groups: ReadonlyArray<string | undefined>
) => readonly [from: number, to: number]
export declare const mean: (all: ReadonlyArray<Metrics>) => Metrics
