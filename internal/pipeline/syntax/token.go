package syntax

import "slices"

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

	// The reserved words, in the order of the list below.
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
func ReservedWords() []string { return slices.Clone(reserved[:]) }

// wordKind gives the kind of a word: those of the reserved words are in their
// order.
func wordKind(w string) kind {
	if i := slices.Index(reserved[:], w); i >= 0 {
		return tType + kind(i)
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
