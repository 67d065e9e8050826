// Package workflow reads workflow files: YAML (or JSON) into a typed model
// that keeps the place of everything, with all problems of a file at once.
//
// [Load] does the whole way: it reads the file, composes it with what it
// imports, extends and instantiates, gives its parameters their values, fills
// in every default, resolves every spelling and checks what can be checked
// without running anything. The result is a [File], which the engine runs.
//
// There is one step type, [Step], and one parser of it, whatever place the
// step is in. The keys that the parser knows are tables (fields.go); the
// JSON Schema for editors ([Schema]), the list of keys ([Fields]) and the
// check for unknown keys are made from the same tables.
//
// The layers, from the text upwards: tree.go turns text into nodes with
// places (anchors, merge keys, duplicates, bounds); compose.go merges the trees
// of several files; object.go reads fields out of a node by the tables; the
// files named after what they read (file.go, step.go, retry.go, …) build the
// model; check.go looks at the finished model.
package workflow
