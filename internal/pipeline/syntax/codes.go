package syntax

// The codes of syntax errors. They are stable; E001 to E017 belong to the
// checker.
const (
	CodeSyntax    = "E020" // something else was expected here
	CodeCharacter = "E021" // a character or operator that the language does not have
	CodeString    = "E022" // a string that is not closed, an unknown escape
	CodeNumber    = "E023" // a number out of range or malformed
	CodeDuration  = "E024" // a malformed duration or rate
	CodeOption    = "E025" // an unknown or repeated option, or a value it does not take
	CodeReserved  = "E026" // a reserved word as a name
	CodeOutput    = "E027" // no output, or an output without a name
	CodePattern   = "E028" // a pattern that match does not have
	CodeLimit     = "E029" // too large, too deep, too many errors
)

// Limits that keep a hostile source from costing more than it is worth.
const (
	maxDepth  = 1000  // brackets, operators and blocks inside one another
	maxChain  = 20000 // operators, fields and calls in one declaration, one after another
	maxErrors = 100   // problems reported of one file
)
