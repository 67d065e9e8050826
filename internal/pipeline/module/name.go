package module

import (
	"fmt"
	"slices"
	"strings"
)

// reserved are the words of the language that cannot be names.
var reserved = []string{"type", "in", "out", "if", "else", "true", "false", "use", "as", "and", "or", "not", "when", "branch", "otherwise", "with", "lazy", "match", "is"}

func isIdent(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return s != ""
}

// CheckName says why a pipeline could not call a module by a name; nil if it
// can: names of letters, digits, _ and -, not beginning with a digit or -,
// with dots between them for a namespace.
func CheckName(name string) error {
	for part := range strings.SplitSeq(name, ".") {
		switch {
		case !isIdent(part):
			return fmt.Errorf("%q cannot be the name of a module; write letters, digits, _ and -, as in Fetch or shop.orders.Fetch", name)
		case slices.Contains(reserved, part):
			return fmt.Errorf("%q cannot be the name of a module: %s is a word of the language", name, part)
		}
	}
	return nil
}
