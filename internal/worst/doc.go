// Package worst says what a workflow file or a pipeline takes at most: [Explain] gives the
// plan of a file with the worst case of each step, [Calls] that of the calls of a
// pipeline and the longest way through them.
//
// How often the parts of a step run is what the executor goes by (workflow/bounds.go);
// what a retry policy adds to one attempt, and how bounds add up, is in package bound,
// for both. Nothing is read, run or looked up.
package worst
