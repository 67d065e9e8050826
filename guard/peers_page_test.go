package guard_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write bench/PEERS.md anew")

// peerRow is one line of bench/peers.tsv.
type peerRow struct {
	peer, feature, verdict string
	cases                  int // -1: not counted
	note                   string
}

// TestPeersPage holds bench/PEERS.md to bench/peers.tsv, and that to the tests
// of this repository: what is said to be covered names tests that exist, and what
// is not says why.
func TestPeersPage(t *testing.T) {
	rows, tests := peerRows(t), allTests(t)
	named := regexp.MustCompile(`\b([a-z]+)\.(Test\w+)`)
	for _, r := range rows {
		found := named.FindAllStringSubmatch(r.note, -1)
		if r.verdict == "covered" && len(found) == 0 {
			t.Errorf("%s: %s: no test is named", r.peer, r.feature)
		}
		for _, m := range found {
			if !tests[m[1]+"."+m[2]] {
				t.Errorf("%s: %s: there is no %s", r.peer, r.feature, m[0])
			}
		}
		if !slices.Contains([]string{"covered", "differs", "out"}, r.verdict) || r.note == "" {
			t.Errorf("%s: %s: %q, %q", r.peer, r.feature, r.verdict, r.note)
		}
	}
	page := peersPage(rows)
	if *update {
		if err := os.WriteFile("../bench/PEERS.md", []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("../bench/PEERS.md"); err != nil || string(got) != page {
		t.Errorf("bench/PEERS.md is not what bench/peers.tsv makes: go test ./guard -run TestPeersPage -update (%v)", err)
	}
}

func peerRows(t *testing.T) (rows []peerRow) {
	t.Helper()
	text, err := os.ReadFile("../bench/peers.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		f := strings.Split(line, "\t")
		if len(f) != 6 {
			t.Fatalf("not six columns: %s", line)
		}
		n := -1
		if f[3] != "-" {
			if n, err = strconv.Atoi(f[3]); err != nil {
				t.Fatal(err)
			}
			if sum := casesOf(t, f[4]); sum != n {
				t.Errorf("%s: %s: %d cases, but the tests named have %d", f[0], f[1], n, sum)
			}
		}
		rows = append(rows, peerRow{f[0], f[1], f[2], n, f[5]})
	}
	return rows
}

// casesOf adds up a list of tests: a name is one case, name:n are n.
func casesOf(t *testing.T, list string) (sum int) {
	t.Helper()
	for name := range strings.FieldsSeq(list) {
		n := 1
		if _, count, ok := strings.Cut(name, ":"); ok {
			var err error
			if n, err = strconv.Atoi(count); err != nil {
				t.Fatal(err)
			}
		}
		sum += n
	}
	return sum
}

// allTests are the tests of this repository, as package.TestName.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	header, function := regexp.MustCompile(`(?m)^package (\w+?)(_test)?$`), regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, dir := range []string{"../backoff", "../circuit", "../retry", "../limit", "../hedge", "../guard", "../contrib"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range function.FindAllStringSubmatch(string(text), -1) {
				tests[header.FindStringSubmatch(string(text))[1]+"."+m[1]] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return tests
}

// peersPage is bench/PEERS.md.
func peersPage(rows []peerRow) string {
	var b strings.Builder
	b.WriteString(peersHead)
	type sums map[string]int
	var peers []string
	of, all := map[string]sums{}, sums{}
	for _, r := range rows {
		if of[r.peer] == nil {
			of[r.peer] = sums{}
			peers = append(peers, r.peer)
		}
		if r.cases > 0 {
			of[r.peer][r.verdict] += r.cases
			all[r.verdict] += r.cases
		}
	}
	line := func(name string, s sums) {
		if len(s) == 0 {
			fmt.Fprintf(&b, "| %s | not counted | | | |\n", name)
			return
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", name, s["covered"]+s["differs"]+s["out"], s["covered"], s["differs"], s["out"])
	}
	for _, p := range peers {
		line(p, of[p])
	}
	line("all that are counted", all)
	for _, p := range peers {
		fmt.Fprintf(&b, "\n## %s\n\n| feature | verdict | cases | ours, or why not |\n| --- | --- | --: | --- |\n", p)
		for _, r := range rows {
			if r.peer != p {
				continue
			}
			cases := ""
			if r.cases >= 0 {
				cases = strconv.Itoa(r.cases)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.feature, r.verdict, cases, regexp.MustCompile(`\b[a-z]+\.Test\w+`).ReplaceAllString(r.note, "`$0`"))
		}
	}
	return b.String()
}

const peersHead = `# What the tests of other libraries hold to

The tests of ten libraries, by feature: *covered* by tests of ours, which are named; where ours *differs* by design; what is *out*, and why. The list is ` + "`peers.tsv`" + `, which also names
their tests. A test of this repository holds this page to the list, and the list to the tests that it names. Ours say the same behaviour in our words and in virtual time; nothing is copied.

Counted are the cases that a run of their own tests names (functions, and subtests of those that have some): failsafe-go v0.9.8, cenkalti/backoff v7.0.3, avast/retry-go v5.1.1,
sethvargo/go-retry v0.5.0, sony/gobreaker v2.4.0, eapache/go-resiliency v1.7.0, hashicorp/go-retryablehttp v0.7.8; and the test methods of tenacity 9.2.1. A case is counted under the feature that its
name and its code say; one test of ours stands for several of theirs. Polly and resilience4j are in none of the registries that this was made with: of these the features are listed, and nothing is counted.

| peer | cases | covered | differs | out |
| --- | --: | --: | --: | --: |
`
