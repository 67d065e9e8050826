// Package rows has what the programs of the benchmarks have in common: figures beside their
// goals, printed as a table, and written to a file for who gathers those of all.
package rows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// Row is a figure that has a goal.
type Row struct {
	Of    string // the program that measured it
	What  string // with its unit
	Got   float64
	Goal  float64
	Least bool // Goal is the least; else the most
}

// Met says whether the goal is met.
func (r Row) Met() bool {
	if r.Least {
		return r.Got >= r.Goal
	}
	return r.Got <= r.Goal
}

// Print prints rows as a table, and says whether all are met.
func Print(w io.Writer, list []Row) (met bool, err error) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "what\tmeasured\tgoal\t")
	met = true
	for _, r := range list {
		word, verdict := "at most", "met"
		if r.Least {
			word = "at least"
		}
		if !r.Met() {
			met, verdict = false, "NOT MET"
		}
		if r.Of != "" {
			r.What = r.Of + ": " + r.What
		}
		fmt.Fprintf(t, "%s\t%.4g\t%s %.4g\t%s\n", r.What, r.Got, word, r.Goal, verdict)
	}
	return met, t.Flush()
}

// Save writes rows to a file; the name "" is none.
func Save(name, of string, list []Row) error {
	if name == "" {
		return nil
	}
	var b bytes.Buffer
	for _, r := range list {
		r.Of = of
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	return os.WriteFile(name, b.Bytes(), 0o600)
}

// Load reads what Save wrote.
func Load(name string) (list []Row, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var r Row
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}
