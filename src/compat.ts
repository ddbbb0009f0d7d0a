/**
 * Adapters that offer the memory interfaces of five other systems, under the names that those systems use. With them, a program can
 * migrate to this library one call at a time; new code does not need them.
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
/** The type of the function by which an adapter runs Effects as promises. */
export type { Run } from "./compat/Promises.ts"
