package diag

import (
	"fmt"
	"strconv"
	"strings"
)

// Plural is a word as a number of things wants it: with an s, or in the other form
// that is given.
func Plural(n int, word string, many ...string) string {
	switch {
	case n == 1:
		return word
	case len(many) > 0:
		return many[0]
	}
	return word + "s"
}

// Count is a number of things: "1 item", "3 items".
func Count(n int, word string, many ...string) string {
	return strconv.Itoa(n) + " " + Plural(n, word, many...)
}

// First names the first n of a list, and says how many more there are.
func First(list []string, n int) string {
	if more := len(list) - n; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:n], ", "), more)
	}
	return strings.Join(list, ", ")
}
