package diag

import (
	"slices"
	"strings"
)

// Nearest returns the candidate that a person who typed word most likely
// meant, or "" if none is near: a different spelling of the same letters
// (case, hyphens, underscores), or one within a third of its length in edits, that
// leave more than half of it or only its letters in another order; more than one edit leave
// the first letter, or one word in the other. If there is none,
// it is the only one that begins with the word.
func Nearest(word string, candidates []string) string {
	plain := strings.NewReplacer("-", "", "_", "", " ", "").Replace
	w := plain(strings.ToLower(word))
	best, bestD := "", len(w)/3+2
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if c == word {
			continue
		}
		of := plain(strings.ToLower(c))
		if d := distance(w, of, bestD); d < bestD && (d < max(2, (len(w)+1)/2) || sorted(w) == sorted(of)) && (d < 2 || w[0] == of[0] || strings.Contains(w, of) || strings.Contains(of, w) || sorted(w) == sorted(of)) {
			best, bestD = c, d
		}
	}
	if best == "" && len(w) >= 3 {
		best = begins(w, candidates, plain)
	}
	return best
}

// begins returns the only candidate that begins with a word, "" if none or several do.
func begins(word string, candidates []string, plain func(string) string) (found string) {
	for _, c := range candidates {
		switch of := plain(strings.ToLower(c)); {
		case !strings.HasPrefix(of, word) || of == word || c == found:
		case found != "":
			return ""
		default:
			found = c
		}
	}
	return found
}

func sorted(word string) string {
	letters := []byte(word)
	slices.Sort(letters)
	return string(letters)
}

// DidYouMean gives `did you mean "x"?`, or "" where nothing is near.
func DidYouMean(word string, candidates []string) string {
	if c := Nearest(word, candidates); c != "" {
		return `did you mean "` + c + `"?`
	}
	return ""
}

// distance is the edit distance with adjacent transpositions, cut off at
// limit. (Optimal string alignment; Damerau 1964, Levenshtein 1966.)
func distance(a, b string, limit int) int {
	ra, rb := []rune(a), []rune(b)
	if len(ra)-len(rb) >= limit || len(rb)-len(ra) >= limit || len(ra) > 64 || len(rb) > 64 {
		return limit
	}
	prev2, prev, cur := make([]int, len(rb)+1), make([]int, len(rb)+1), make([]int, len(rb)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(ra); i++ {
		cur[0] = i
		for j := 1; j <= len(rb); j++ {
			cost := 1
			if ra[i-1] == rb[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && ra[i-1] == rb[j-2] && ra[i-2] == rb[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(rb)]
}

// QuoteColon is what to do about such a colon as InnerColon finds.
const QuoteColon = `put quotes around a text that has ": " in it, or use a block (key: |)`

// InnerColon is the column, from 1, of the colon in a line that YAML takes for that of a key
// inside a value: the second that has a blank behind it, else the first; 0 for none.
func InnerColon(line string) int {
	first := strings.Index(line, ": ")
	if first < 0 {
		return 0
	}
	if second := strings.Index(line[first+1:], ": "); second >= 0 {
		first += second + 1
	}
	return first + 1
}
