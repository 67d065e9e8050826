package syntax

// kind is the kind of a token.
type kind uint8

const (
	tEOF kind = iota
	tIdent
	tInt
	tFloat
	tQuantity // a number directly followed by letters: "5min", "1.5s", "3x"
	tString   // a whole string without "${"
	tStrHead  // "text${
	tStrMid   // }text${
	tStrTail  // }text"

	tLParen
	tRParen
	tLBrack
	tRBrack
	tLBrace
	tRBrace
	tComma
	tColon
	tDot
	tAt
	tBar
	tAssign   // =
	tArrow    // ->
	tFatArrow // =>
	tCoalesce // ??
	tQuestion // ?, which the language does not have
	tEq
	tNe
	tLt
	tLe
	tGt
	tPlus
	tMinus
	tStar
	tSlash

	// The reserved words.
	tType
	tIn
	tOut
	tIf
	tElse
	tTrue
	tFalse
	tUse
	tAs
	tAnd
	tOr
	tNot
	tWhen
	tBranch
	tOtherwise
	tWith
	tLazy
	tMatch
	tIs
)

// reserved lists the reserved words; none of them may name a variable, an
// input, a type or a parameter. They may name fields and parts of a dotted
// name.
var reserved = [...]string{"type", "in", "out", "if", "else", "true", "false", "use", "as", "and", "or", "not", "when",
	"branch", "otherwise", "with", "lazy", "match", "is"}

// ReservedWords returns the words that cannot be names, in the order of the
// grammar.
func ReservedWords() []string { return append([]string(nil), reserved[:]...) }

// wordKind gives the kind of a word.
func wordKind(w string) kind {
	switch w {
	case "type":
		return tType
	case "in":
		return tIn
	case "out":
		return tOut
	case "if":
		return tIf
	case "else":
		return tElse
	case "true":
		return tTrue
	case "false":
		return tFalse
	case "use":
		return tUse
	case "as":
		return tAs
	case "and":
		return tAnd
	case "or":
		return tOr
	case "not":
		return tNot
	case "when":
		return tWhen
	case "branch":
		return tBranch
	case "otherwise":
		return tOtherwise
	case "with":
		return tWith
	case "lazy":
		return tLazy
	case "match":
		return tMatch
	case "is":
		return tIs
	}
	return tIdent
}

func (k kind) isReserved() bool { return k >= tType }

// beginsExpr reports whether an expression may begin with the token.
func (k kind) beginsExpr() bool {
	switch k {
	case tIdent, tInt, tFloat, tQuantity, tString, tStrHead, tLParen, tLBrack, tLBrace, tMinus,
		tIf, tWhen, tBranch, tMatch, tNot, tTrue, tFalse:
		return true
	}
	return false
}

// isWord reports whether the token looks like an identifier.
func (k kind) isWord() bool { return k == tIdent || k.isReserved() }

// token is one token. Its text is in the source.
type token struct {
	kind       kind
	newLine    bool // a line ends between the previous token and this one
	start, end int32
	match      int32 // of an opening bracket: the index of its closing one; 0 if it has none
}
