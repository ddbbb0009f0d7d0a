/**
 * Five systems by their own names: adapters from their interfaces onto this library, and their functions, for a program that
 * moves over a call at a time. New code needs none of it.
 */
/** drover's `@drover/memory`. */
export * as Drover from "./compat/Drover.ts"
/** Strands Agents' memory stores and their manager. */
export * as Strands from "./compat/Strands.ts"
/** The memory of Deuz's SDK. */
export * as Deuz from "./compat/Deuz.ts"
/** The memory of molroo's SDK. */
export * as Molroo from "./compat/Molroo.ts"
/** The memories of nexus-agents. */
export * as Nexus from "./compat/Nexus.ts"
/** The function by which an adapter runs effects. */
export type { Run } from "./compat/Promises.ts"
