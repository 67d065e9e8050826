// Package syntax reads and writes the source of pipelines (.cst files): it
// turns text into a tree with positions, reports everything that is wrong
// with the text at once, and prints a tree in its one canonical form.
//
//	f, problems := syntax.Parse("flow.cst", src)
//	if !problems.HasErrors() {
//		os.Stdout.Write(syntax.Format(f))
//	}
//
// The grammar is in grammar.txt beside this file. Names are not resolved and
// types are not checked here; that is package check's work. Parse always
// returns a file: what it could not understand is a BadDecl, BadExpr,
// BadType, BadPattern or BadValue, and its error is in the list.
package syntax
