import { stores } from "../stores.ts"
import * as Naughty from "./naughty.ts"

for (const [name, layer] of Object.entries(stores)) Naughty.suite(name, layer)
