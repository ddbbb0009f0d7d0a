/**
 * Maps each mutant of `mutants.test.ts` to the law that is known to kill it, which is tried first. It only saves time: a
 * mutant that is not named here, or that survives its law, is held to every law.
 */
export const killers: Readonly<Record<string, string>> = {
  "scopes are one where their ids join to one path":
    "an id with a slash is one id: never a path through other ids, and seen by nobody else",
  "a file's body is cut to the length of any other":
    "a body of origin file may have 1,048,576 characters and is updated like a short one; any other has 65,536",
  "get skips the viewer check":
    "exact sees what asks for no more than it has, within what has all that it asks for; no tenant another's",
  "list skips the viewer check": "what is expired, closed or another's takes no place from what is not",
  "search skips the viewer check": "what is expired, closed or another's takes no place from what is not",
  "stream skips the viewer check": "a stream is every page of the list",
  "history skips the viewer check": "history begins with the record as it is; of what is absent there is none",
  "forget skips the viewer check":
    "what is invisible is absent: no read shows it, no write reaches it, no error tells it from nothing",
  "update skips the viewer check":
    "what is invisible is absent: no read shows it, no write reaches it, no error tells it from nothing",
  "put skips the viewer check": "a viewer writes only where it sees",
  "touch and uses skip the viewer check":
    "what is invisible is absent: no read shows it, no write reaches it, no error tells it from nothing",
  "whyNot tells of foreign records":
    "what is invisible is absent: no read shows it, no write reaches it, no error tells it from nothing",
  "links skip the viewer check":
    "a link whose end is out of sight, closed, not yet true or expired is none, and its name is free for another",
  "a name means who bears it out of sight":
    "a link whose end is out of sight, closed, not yet true or expired is none, and its name is free for another",
  "links stay as they were when they were first asked for":
    "a record is meant by its id, else by its summary in any case, spacing and form, be it behind folders",
  "a name leads nowhere back": "a link and a name in a text lead from one record to the other, and back",
  "changes are told to everybody": "everyone is told of what they see, and of nothing else",
  "tenants are one":
    "exact sees what asks for no more than it has, within what has all that it asks for; no tenant another's",
  "the limit comes before the filter":
    "asOf answers by valid time: from validAt, before invalidAt, closed records included",
  "the limit comes before the viewer check": "what is expired, closed or another's takes no place from what is not",
  "scores count what others wrote":
    "scores, places and what was left out are those of a store without the foreign records",
  "nothing is said to be left out": "a search without text is by recency, like the list",
  "the nearest are cut before the viewer check": "what a viewer, a filter or the time keeps out takes nobody's place",
  "the nearest are cut before the filter":
    "hybrid finds by word and by meaning, and by words alone where nothing has a vector",
  "all models are one": "each live text wants one vector of a model, whoever has it; an edit wants a new one",
  "a vector is that of a record, whatever it says by now":
    "each live text wants one vector of a model, whoever has it; an edit wants a new one",
  "a purge leaves the vector behind":
    "an edited or forgotten text is no longer found by its vector; a purged one has none",
  "what awaits is counted out of sight":
    "doubles of the nearest take nobody's place, however many; `awaiting` counts what the viewer sees",
  "what awaits is not counted": "nearest first, by cosine; what has no vector of the model is counted, not found",
  "hybrid is by words alone": "hybrid finds by word and by meaning, and by words alone where nothing has a vector",
  "hybrid wants word and vector": "hybrid finds by word and by meaning, and by words alone where nothing has a vector",
  "the vectors of a batch are attached one by one":
    "vectors that cannot be compared are refused, and nothing is kept of them",
  "a vector of another length is passed over":
    "vectors that cannot be compared are refused, and nothing is kept of them",
  "one text of two records is pending twice":
    "each live text wants one vector of a model, whoever has it; an edit wants a new one",
  "the vectors read are the store's own":
    "a text keeps the vector it has, which nobody can change; with the last of a model its length is free",
  "a turn is lent what others said":
    "what has expired, and what a viewer does not see, neither lends a turn its score nor is counted",
  "a turn is lent what has expired":
    "what has expired, and what a viewer does not see, neither lends a turn its score nor is counted",
  "turns lend each other nothing":
    "a turn beside one with the words comes before one that stands alone; what is beside none of them is not found",
  "who said it counts for nothing":
    "a question that names a speaker finds first what that speaker said: by first name, in any case, with or without accents, or a letter away",
  "a question is asked by nobody":
    "a question in the first person finds first what the viewer said, then what others said in the same words",
  "times in a question count for nothing": "a question that names a time finds first what was true then",
  "a compound is its parts":
    "a name that is written as one word is found as a whole before its parts, and a lone character where nothing else is asked",
  "near-duplicates of another kind are left out":
    "one text of two kinds, or of other data, is two hits; a double is left out, counted, and still listed",
  "near-duplicates are left out uncounted":
    "one text of two kinds, or of other data, is two hits; a double is left out, counted, and still listed",
  "a list leaves near-duplicates out": "what differs in scope, kind, case, summary or data is not equal",
  "near-duplicates take the place of what is further off":
    "doubles of the nearest take nobody's place, however many; `awaiting` counts what the viewer sees",
  "a missing leg is passed over":
    "hybrid answers by words; a store without vectors says that this leg is missing, and refuses the mode vector",
  "no deduplication": "an equal record is not put twice: the answer is the one that is there",
  "a double is said to be created": "an equal record is not put twice: the answer is the one that is there",
  "a double is looked for among others' records": "an equal record of somebody else is not a double, and not told",
  "minted ids go anywhere": "minted ids are ULIDs and only go up, within a millisecond and beyond",
  "the revision is not raised": "a put with an id replaces the whole record; when it came and since when it holds stay",
  "a purge leaves history behind": "a forgotten record stays for System, by id; a purged one for nobody",
  "a tombstone forgets what it was":
    "the id of forgotten instructions stays theirs: nobody else takes or purges it, and they come back",
  "only the newest revision is kept":
    "what has expired since cannot be restored: nothing is written that nobody would see",
  "milliseconds are lost": "what a caller does later to what it passed or was given does not reach the store",
  "bodies are trimmed": "what is put is what is got, in every field",
  "a batch is applied one by one": "one refusal, wherever in the batch, and nothing of it is there",
  "ifRevision is ignored":
    "ifRevision: a put, an update and a forget that come too late change nothing and say by how much",
  "an update drops what it does not name": "an update changes what it names: undefined leaves alone, null clears",
  "an update reads, and writes later": "concurrent updates of one record lose nothing",
  "what has expired is shown": "what has expired is absent everywhere, from that very millisecond, whatever is asked",
  "asOf goes back behind expiry":
    "what has expired is absent everywhere, from that very millisecond, whatever is asked",
  "what is closed is listed": "a correction in one batch: the new record is in, the old one closed and superseded",
  "asOf is ignored": "asOf answers by valid time: from validAt, before invalidAt, closed records included",
  "a cursor is a number of rows": "a cursor is good for its viewer and its filter, and made by nobody else",
  "a page too many": "a page is 20 unless said, and tells whether there is more",
  "compact takes what is closed, too":
    "compact erases what has expired, forgotten or not, says how many rows, and touches nothing else",
  "the trash skips the viewer check":
    "a viewer is shown what it sees of the trash, of its tenant, and what every clause of the filter means",
  "a list knows no trash":
    "what is forgotten is listed as forgotten, newest forgotten first, and nowhere else; `false` is as if not said",
  "a stream knows no trash": "the trash has pages and a stream like any list; its cursor is no cursor of another",
  "a search does not say that it knows no trash": "a filter or a query that is not legal is refused",
  "`forgotten: false` is the trash":
    "what is forgotten is listed as forgotten, newest forgotten first, and nowhere else; `false` is as if not said",
  "the trash is in the order of arrival":
    "what is forgotten is listed as forgotten, newest forgotten first, and nowhere else; `false` is as if not said",
  "the trash has one page": "the trash has pages and a stream like any list; its cursor is no cursor of another",
  "the trash leaves out what is closed":
    "everything that is listed as forgotten can be restored, and then is what it was",
  "the trash shows what has expired":
    "what is purged, put again or expired is not listed as forgotten; the library is shown what has expired",
  "the trash shows forgotten instructions":
    "forgotten instructions, and rows of the library's own, are in nobody's trash but the library's",
  "a tombstone does not say when it was made":
    "what is forgotten is listed as forgotten, newest forgotten first, and nowhere else; `false` is as if not said",
  "tombstones are no revisions": "a tombstone is a revision like any other: restored, it says what was forgotten",
  "a restored record has no past":
    "what was forgotten and restored has its past again, the tombstone among it; what was put anew before that has not",
  "compaction empties the trash at once":
    "compaction leaves what was forgotten until the trash is over, counted from when it was forgotten, then erases it",
  "compaction never empties the trash":
    "compaction leaves what was forgotten until the trash is over, counted from when it was forgotten, then erases it",
  "a draft says how far to trust it": "where a record comes from is said by the writing path, never by a draft",
  "anyone may write instructions": "instructions are read-only, but for their own path",
  "the id of forgotten instructions is anyone's":
    "the id of forgotten instructions stays theirs: nobody else takes or purges it, and they come back",
  "a bad limit is made a good one": "a filter or a query that is not legal is refused",
  "what a caller is given is the store's own":
    "what a caller does later to what it passed or was given does not reach the store"
}
