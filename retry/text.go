package retry

import "strings"

// maxOutput bounds the output that is searched: 64 KiB each of stderr and of
// stdout.
const maxOutput = 2 * 64 << 10

// tail returns the last maxOutput bytes of text.
func tail(text string) string {
	return text[max(0, len(text)-maxOutput):]
}

// containsFold reports whether text contains word in any case. word is of
// lower-case ASCII letters and spaces.
func containsFold(text, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == word[0] && strings.EqualFold(text[i:i+len(word)], word) {
			return true
		}
	}
	return false
}

// containsNumber reports whether text contains number as a whole number: not
// within a word or a longer number, nor as a part of a decimal such as 0.500
// or 1,500.
func containsNumber(text, number string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], number)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(number)
		if !touchesBefore(text[:start]) && !touchesAfter(text[end:]) {
			return true
		}
		from = start + 1
	}
}

// touchesBefore reports whether a number that follows text would be a part of
// what text ends with.
func touchesBefore(text string) bool {
	n := len(text)
	switch {
	case n == 0:
		return false
	case isWordByte(text[n-1]):
		return true
	}
	return n > 1 && isSeparator(text[n-1]) && isDigit(text[n-2])
}

// touchesAfter is touchesBefore for the text that comes after the number.
func touchesAfter(text string) bool {
	switch {
	case text == "":
		return false
	case isWordByte(text[0]):
		return true
	}
	return len(text) > 1 && isSeparator(text[0]) && isDigit(text[1])
}

func isDigit(c byte) bool     { return '0' <= c && c <= '9' }
func isSeparator(c byte) bool { return c == '.' || c == ',' }

// isWordByte takes every byte of a character beyond ASCII for a letter.
func isWordByte(c byte) bool {
	return isDigit(c) || c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0x80
}
