package cli

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/proc"
)

// TestReadShown: a note counts where what it is of is on the disk, or the machine has not been
// started anew since; half a note never does.
func TestReadShown(t *testing.T) {
	const now = "this"
	for name, c := range map[string]struct {
		text string
		want map[ending]bool
	}{
		"none":                        {"", map[ending]bool{}},
		"killed":                      {"\nlife this\n1 7.\n3 12.\n", map[ending]bool{{1, 7}: true, {3, 12}: true}},
		"half a note":                 {"\nlife this\n1 7.\n3 12", map[ending]bool{{1, 7}: true}},
		"half a note, and on":         {"\nlife this\n1 7.\n3 1\nlife this\n3 12.\n", map[ending]bool{{1, 7}: true, {3, 12}: true}},
		"ended, then a power cut":     {"\nlife that\n1 7.\nend\n", map[ending]bool{{1, 7}: true}},
		"a power cut":                 {"\nlife that\n1 7.\n", map[ending]bool{}},
		"a power cut, and on":         {"\nlife that\n1 7.\n\nlife this\n2 8.\n", map[ending]bool{{2, 8}: true}},
		"killed, then a power cut":    {"\nlife that\n1 7.\nend\n\nlife that\n2 8.\n\nlife this\n", map[ending]bool{{1, 7}: true}},
		"the same item, run again":    {"\nlife this\n1 7.\n1 20.\n", map[ending]bool{{1, 7}: true, {1, 20}: true}},
		"a life without a known boot": {"\nlife \n1 7.\n", map[ending]bool{}},
	} {
		got, err := readShown(strings.NewReader(c.text), now)
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}

// TestShownNotes: what is noted is read again, by the next process and the one after it.
func TestShownNotes(t *testing.T) {
	dir := t.TempDir()
	want := map[ending]bool{}
	for life := range 3 {
		n, got, err := openShown(dir)
		if err != nil || !maps.Equal(got, want) {
			t.Fatalf("life %d: %v, %v; want %v", life, got, err, want)
		}
		at := ending{life + 1, int64(10 * life)}
		n.add(at)
		want[at] = true
		if life == 1 { // it is killed
			if err := n.write(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := n.close(os.Stdout); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, shownFile))
	if err != nil || strings.Count(string(text), "life "+proc.BootID()+"\n") != 3 || strings.Count(string(text), "\nend\n") != 2 {
		t.Errorf("%q, %v", text, err)
	}
}
