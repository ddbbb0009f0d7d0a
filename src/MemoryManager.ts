/**
 * Automatic memory over named stores: searches them all, adds to all or some, and extracts memories from conversations.
 */
export type { Inject, InjectionConfig } from "./harness/Injection.ts"
export { layer, MemoryManager } from "./harness/MemoryManager.ts"
export type { Added, Config, Service } from "./harness/MemoryManager.ts"
