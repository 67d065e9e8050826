package template

import "testing"

// TestUnclosed: what a shell text opens and does not close is found where it is, and
// nothing is found in a text that a shell runs.
func TestUnclosed(t *testing.T) {
	for src, at := range map[string]int{
		"echo ${ab":                5,
		"echo ${ab\necho":          5,
		"echo 'it":                 5,
		"echo \"it":                5,
		"echo $(date":              5,
		"echo ${ab}":               -1,
		"echo '${ab'":              -1,
		"echo \\${ab":              -1,
		"echo a # ${ab":            -1,
		"cat <<'E'\n${ab\nE\n":     -1,
		"cat <<E\nab":              -1,
		"echo ${ab:-${c|json}}":    -1,
		"echo ${item.name} $$":     -1,
		"case a in a) echo;; esac": -1,
		"echo ) (":                 -1, // refused, but nothing is open
	} {
		text, err := Parse(src)
		if err != nil {
			t.Errorf("%q: %v", src, err)
			continue
		}
		what, got, ok := text.Unclosed()
		if !ok {
			got = -1
		}
		if got != at {
			t.Errorf("%q: %q at %d, want %d", src, what, got, at)
		}
		if ok {
			t.Logf("%q: %s", src, what)
		}
	}
}
