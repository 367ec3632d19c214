// JSON as a type, and places in it as JSON pointers (RFC 6901).
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }
export type JsonObject = { readonly [name: string]: Json }

/** A JSON Schema 2020-12 as it came: nothing in it is certain. */
export type JsonSchema = boolean | JsonObject
