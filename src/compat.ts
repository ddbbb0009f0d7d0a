/**
 * Adapters for programs that migrate to this library from one of five other systems. Each adapter has the memory interface of one system,
 * with the names of that system. A program can thus migrate one call at a time. New code needs no adapter.
 */
/** The interface of drover's `@drover/memory`. */
export * as Drover from "./compat/Drover.ts"
/** The interface of Strands Agents' memory stores and their manager. */
export * as Strands from "./compat/Strands.ts"
/** The interface of the memory of Deuz's SDK. */
export * as Deuz from "./compat/Deuz.ts"
/** The interface of the memory of molroo's SDK. */
export * as Molroo from "./compat/Molroo.ts"
/** The interfaces of the memories of nexus-agents. */
export * as Nexus from "./compat/Nexus.ts"
/** The type of the function with which an adapter runs an Effect as a promise. */
export type { Run } from "./compat/Promises.ts"
