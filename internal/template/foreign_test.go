package template

import (
	"os/exec"
	"strings"
	"testing"
)

// What ForeignInShell finds is what a shell fails of.
func TestForeignInShellIsWhatAShellCannotRead(t *testing.T) {
	for _, src := range []string{
		`echo ${{ a.b }}`,
		`echo "x ${{ a.b }} y"`,
		`echo '${{ a.b }}'`,
		`echo "it's ${{ a.b }}"`,
		`echo 'say "${{ a.b }}"'`,
		`true # ${{ a.b }}`,
		`echo a#${{ a.b }}`,
		`echo \${{ a.b }}`,
		`echo "\${{ a.b }}"`,
		`echo "\\${{ a.b }}"`,
		`echo "${A:-${{ a.b }}}"`,
		`echo "$(echo '${{ a.b }}')"`,
		`echo "$(echo ${{ a.b }})"`,
		"echo `echo ${{ a.b }}`; exit $?",
		"cat <<EOF\n${{ a.b }}\nEOF",
		"cat <<'EOF'\n${{ a.b }}\nEOF",
		"cat <<EOF\n\\${{ a.b }}\nEOF",
		`echo $${{ a.b }}`,
		`echo "x $${{ a.b }} ${{ c.d }}"`,
		`echo '$${{ a.b }}'`,
		"cat <<EOF\n$${{ a.b }}\nEOF",
		"cat <<'EOF'\n$${{ a.b }}\nEOF",
		`echo ${{ format('{0}', 'x y') }}`,
	} {
		text, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		found := len(text.ForeignInShell()) > 0
		said, _ := exec.Command("sh", "-c", strings.ReplaceAll(src, "$$", "$")).CombinedOutput()
		fails := strings.Contains(strings.ToLower(string(said)), "bad substitution")
		if found != fails {
			t.Errorf("%s: found %v, a shell fails of it: %v", src, found, fails)
		}
	}
}
