import * as MemoryStoreContract from "../../src/testing/MemoryStoreContract.ts"
import { stores } from "../stores.ts"
import { times } from "../vault/Program.ts"

MemoryStoreContract.suite("markdown", stores.markdown, { courses: times(3, 12) })
