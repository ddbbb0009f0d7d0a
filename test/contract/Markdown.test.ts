import * as MemoryStoreContract from "../../src/testing/MemoryStoreContract.ts"
import { stores } from "../stores.ts"

MemoryStoreContract.suite("markdown", stores.markdown)
