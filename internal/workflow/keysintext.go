package workflow

import (
	"strings"

	"github.com/bide-dev/bide/internal/diag"
)

// tellKeys warns of a key of a step that is inside the text of one, where it is a
// word of the command or of the prompt: "when: …" in quotes, or too far in below a block.
func (d *decoder) tellKeys(n *node, what string) {
	if d.full() {
		return
	}
	if key, at := keyInText(n.text); key != "" {
		d.problems.Warnf(n.at(at), "key-in-text", "%s: is part of %s here, and no key", key, what).
			Suggest("end the text before it, and write %s: on its own line, indented as the first key of the step; in single quotes it is plain text", key)
	}
}

// keyInText finds a key of a step, with its colon and outside quotes, where a line of a
// shell begins, or in the middle of one if it is when; "" if there is none.
func keyInText(text string) (key string, at int) {
	if !strings.Contains(text, ":") || strings.Contains(text, "<<") {
		return "", 0 // a here-document may well be YAML
	}
	offset := 0
	for line := range strings.Lines(text) {
		word, _, is := strings.Cut(strings.TrimSpace(line), ":")
		begin := offset + strings.Index(line, word)
		if !is || !isStepKey(word) || !blankAfter(text[begin+len(word)+1:]) {
			word, begin = "when", offset+strings.Index(line, " when: ")+1
		}
		if begin > offset || strings.HasPrefix(line, word+":") {
			if !openQuote(text[:begin]) {
				return word, begin
			}
		}
		offset += len(line)
	}
	return "", 0
}

func isStepKey(word string) bool {
	_, is := stepTable.field(word)
	return is
}

func blankAfter(rest string) bool { return rest == "" || strings.ContainsAny(rest[:1], " \t\n") }

// openQuote reports whether a quote of a shell is open at the end of a text.
func openQuote(text string) bool {
	var open rune
	for _, r := range text {
		switch {
		case open == 0 && (r == '\'' || r == '"' || r == '`'), open == r:
			open ^= r
		}
	}
	return open != 0
}

// keyBeside is the key of a step that follows a value in its line, or begins a line that is
// too far in, of YAML that cannot be read for that; "" if there is none.
func keyBeside(src *source, line int) (key string, indent int) {
	shown := src.line(line)
	fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(shown), "- "))
	for i, f := range fields {
		if name, is := strings.CutSuffix(f, ":"); is && isStepKey(name) && (i > 0 || !strings.HasPrefix(strings.TrimSpace(shown), "- ")) {
			first := shown
			if i == 0 {
				first = src.line(max(line-1, 1))
			}
			rest := strings.TrimLeft(strings.TrimPrefix(strings.TrimLeft(first, " "), "- "), " ")
			return name, len(first) - len(rest)
		}
	}
	return "", 0
}

// suggestKey says where a key belongs that makes YAML unreadable where it is.
func suggestKey(p *diag.Problem, src *source, line int) bool {
	key, indent := keyBeside(src, line)
	if key != "" {
		p.Suggest("%s: is a key: begin a line with it, %d blanks in, as the key above it is", key, indent)
	}
	return key != ""
}
