package diag

import (
	"fmt"
	"strings"
)

// A DiffLine is a line of the difference of two texts.
type DiffLine struct {
	Sign byte // '-' is of the first text alone, '+' of the second alone, ' ' of both; '@' stands for lines that are not shown
	Text string
}

const (
	// maxDiff bounds the lines that differ: beyond as many on both sides, they are not
	// compared.
	maxDiff = 3000
	// diffAround is how many lines that are the same are shown beside those that differ.
	diffAround = 3
)

// Diff gives the lines in which two texts differ, with a few lines around them.
func Diff(x, y string) []DiffLine {
	a, b := strings.Split(x, "\n"), strings.Split(y, "\n")
	// What both begin and end with is left out of the table.
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []DiffLine
	add := func(sign byte, lines ...string) {
		for _, l := range lines {
			out = append(out, DiffLine{sign, l})
		}
	}
	add(' ', a[:head]...)
	ma, mb := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(ma)*len(mb) > maxDiff*maxDiff {
		add('@', fmt.Sprintf("%d lines became %d others: too many to compare one by one", len(ma), len(mb)))
	} else {
		diffMiddle(ma, mb, add)
	}
	add(' ', a[len(a)-tail:]...)
	return folded(out)
}

// diffMiddle compares by the longest common subsequence.
func diffMiddle(a, b []string, add func(byte, ...string)) {
	width := len(b) + 1
	longest := make([]uint16, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i*width+j] = longest[(i+1)*width+j+1] + 1
			} else {
				longest[i*width+j] = max(longest[(i+1)*width+j], longest[i*width+j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			add(' ', a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[(i+1)*width+j] >= longest[i*width+j+1]:
			add('-', a[i])
			i++
		default:
			add('+', b[j])
			j++
		}
	}
}

// folded leaves out what is the same, but for a few lines beside what differs.
func folded(lines []DiffLine) (out []DiffLine) {
	for i := 0; i < len(lines); {
		end := i
		for end < len(lines) && lines[end].Sign == ' ' {
			end++
		}
		from, to := i, end // what is left out lies between
		if i > 0 {
			from = min(i+diffAround, end)
		}
		if end < len(lines) {
			to = max(end-diffAround, from)
		}
		if n := to - from; n > 1 {
			out = append(append(out, lines[i:from]...), DiffLine{'@', Count(n, "line that is the same", "lines that are the same")})
			out = append(out, lines[to:end]...)
		} else {
			out = append(out, lines[i:end]...)
		}
		for i = end; i < len(lines) && lines[i].Sign != ' '; i++ {
			out = append(out, lines[i])
		}
	}
	return out
}
