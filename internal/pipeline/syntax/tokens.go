package syntax

// TokenClass is what an editor colours a token as.
type TokenClass uint8

// The classes.
const (
	NameToken TokenClass = iota
	KeywordToken
	NumberToken
	StringToken // a string, or a piece of one beside "${…}"
	CommentToken
	OperatorToken
	BracketToken // brackets, commas, colons and dots
)

// Token is a piece of a source.
type Token struct {
	Span
	Class TokenClass
}

// Tokens cuts a source into its tokens and comments, in order. What is no token
// is left out.
func Tokens(src []byte) []Token {
	if len(src) > maxSource {
		return nil
	}
	f := &File{Src: src}
	p := &parser{f: f}
	toks := scan(f, &p.list)
	all := make([]Token, 0, len(toks)+len(f.Comments))
	comments := f.Comments
	for _, t := range toks {
		for len(comments) > 0 && (comments[0].Start < t.start || t.kind == tEOF) {
			all = append(all, Token{Span{comments[0].Start, comments[0].Start + int32(len(comments[0].Text))}, CommentToken})
			comments = comments[1:]
		}
		if t.kind != tEOF {
			all = append(all, Token{t.span(), t.kind.class()})
		}
	}
	return all
}

func (k kind) class() TokenClass {
	switch {
	case k == tIdent:
		return NameToken
	case k == tInt, k == tFloat, k == tQuantity:
		return NumberToken
	case k >= tString && k <= tStrTail:
		return StringToken
	case k >= tLParen && k <= tAt:
		return BracketToken
	case k >= tType:
		return KeywordToken
	}
	return OperatorToken
}
