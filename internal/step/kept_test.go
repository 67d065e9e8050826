package step

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/environ"
	"github.com/bide-dev/bide/internal/mask"
	"github.com/bide-dev/bide/internal/workflow"
)

// logFiles reads logs, and counts how often.
type logFiles struct {
	Actions
	reads int
}

func (l *logFiles) Text(log action.Log) (string, error) {
	l.reads++
	return log.Text()
}

// TestJoined: what is joined of texts and logs is what Bound makes of all of it, and no
// more of the logs is read than is in that.
func TestJoined(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	env := environ.New(environ.Options{File: &workflow.File{}})
	for n := range 40 {
		logs := &logFiles{}
		x := &Executor{Actions: logs, Values: env}
		var parts []string
		var texts []any
		for i := range rnd.IntN(12) {
			text := strings.Repeat(string(rune('a'+i))+"é\n", rnd.IntN(120_000))
			text = strings.TrimRight(text, "\n")
			parts = append(parts, text)
			if rnd.IntN(3) == 0 {
				texts = append(texts, text)
				continue
			}
			file := filepath.Join(dir, "log")
			file += string(rune('a' + i))
			if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, &kept{action.Log{File: file, Size: int64(len(text)) + 1, SHA256: sum(text + "\n"), Len: len(text)}, logs, false})
		}
		got, err := x.joined(texts)
		if err != nil {
			t.Fatal(n, err)
		}
		var none *mask.Masker
		if want := none.Bound(strings.Join(parts, "\n"), MaxVar); got != want {
			t.Fatalf("case %d: %d parts give %d bytes, want %d", n, len(parts), len(got), len(want))
		}
	}
	logs := &logFiles{}
	x := &Executor{Actions: logs, Values: env}
	text := strings.Repeat("x", 400_000)
	file := filepath.Join(dir, "same")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	texts := make([]any, 100)
	for i := range texts {
		texts[i] = &kept{action.Log{File: file, Size: int64(len(text)), SHA256: sum(text), Len: len(text)}, logs, false}
	}
	if got, err := x.joined(texts); err != nil || !strings.Contains(got, " bytes left out …") || logs.reads > 6 {
		t.Errorf("%d reads of 100 logs: %v", logs.reads, err)
	}
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}
