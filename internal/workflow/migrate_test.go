package workflow

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMigratedFilesAreValid: whatever workflow of the scripts and pages of this
// project is migrated, what comes of it has no more problems, and is in the present
// spelling.
func TestMigratedFilesAreValid(t *testing.T) {
	n := 0
	for _, pattern := range []string{"../../examples/*.yml", "../../docs/*.md", "../cli/testdata/*.txtar"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range parted.Split(string(text), -1) {
				if migrates(t, path, []byte(file)) {
					n++
				}
			}
		}
	}
	if n < 70 {
		t.Errorf("%d workflows were found", n)
	}
}

// parted is what is between the files of a script, and of a page.
var parted = regexp.MustCompile("(?m)^(?:-- .* --|```.*)\n")

// TestOlderSpellingsAreRewritten: every older spelling of a key of a step, of a
// policy and of a file, from the tables.
func TestOlderSpellingsAreRewritten(t *testing.T) {
	for _, tab := range []*table{stepTable, retryTable, fileTable} {
		for _, f := range tab.fields() {
			if f.as == "" || f.key == "use" || f.key == "template" {
				continue
			}
			line := f.key + ": " + f.sample
			text := map[*table]string{
				stepTable:  "commands:\n  - shell: make # it\n    " + line + "\n",
				retryTable: "commands:\n  - shell: make # it\n    retry:\n      " + line + "\n",
				fileTable:  "mode: mapreduce\nmap: {input: [1], agent_template: [{shell: make}]}\n" + line + " # it\n",
			}[tab]
			switch f.key {
			case "steps":
				text = line + " # it\n"
			case "parameters":
				text = strings.Replace(text, "shell: make", "pipeline: flow.cst", 1)
			}
			var m Migration
			if _, problems := Parse("x.yml", []byte(text), Options{Migration: &m}); problems.HasErrors() {
				continue // it does not stand alone
			}
			got := string(m.Text())
			if !strings.Contains(got, f.as+": "+f.sample) || strings.Contains(got, line) || !strings.Contains(got, "# it") {
				t.Errorf("%s: %s is not written as %s:\n%s", tab.name, f.key, f.as, got)
			}
			migrates(t, f.key, []byte(text))
		}
	}
}

// migrates checks one file; false where it is none that could be migrated.
func migrates(t *testing.T, path string, text []byte) bool {
	t.Helper()
	var m, again Migration
	f, before := Parse(path, text, Options{Unfilled: true, Migration: &m})
	if f == nil || before.HasErrors() {
		return false
	}
	_, after := Parse(path, m.Text(), Options{Unfilled: true, Migration: &again})
	if after.HasErrors() || len(after) > len(before) {
		t.Errorf("%s has other problems when it is migrated: %v\n%s", path, after, m.Text())
	}
	for _, c := range m.Changes() {
		if _, moved := Parse(path, WithChanges(text, []Change{c}), Options{Unfilled: true}); moved.HasErrors() || len(moved) > len(before) {
			t.Errorf("%s: %s: %v", path, c.From, moved)
		}
	}
	if !bytes.Equal(again.Text(), m.Text()) {
		t.Errorf("%s is not in the present spelling when it is migrated: %v", path, again.Done())
	}
	return true
}
