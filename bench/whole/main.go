// Command whole shows what a run judged as a whole comes to, with the program itself: maps
// that are held while the same thing keeps failing, and limits of the machine that two runs
// share. It prints one table.
//
//	go run ./whole            a minute: 20 kills of each scene that has some
//	go run ./whole -kills 200 as many as the promises say
//	go run ./whole -check     fails if a promise is not met
//	go run ./whole -scene NAME one scene; capacity only so, since it takes seven minutes
//
// What is not timed is the same on any machine. What is timed has a bound that a busy machine
// may miss.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bide-dev/bide/bench/rows"
)

// long is the scene that is played only where it is named: it takes seven minutes.
const long = "capacity"

// A row is one thing that was promised.
type row struct {
	what  string
	got   string
	limit string
	met   bool
	// figure, goal and least are the same as numbers, for the table of all benchmarks.
	figure, goal float64
	least        bool
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "work" {
		if err := work(os.Args[2]); err != nil {
			fatal(err)
		}
		return
	}
	binary := flag.String("bide", "", "a bide that is built already (default: built from the directory above)")
	kills := flag.Int("kills", 20, "how often each scene of kills kills")
	check := flag.Bool("check", false, "exit with 1 if a promise is not met")
	only := flag.String("scene", "", "one scene")
	file := flag.String("rows", "", "also write the figures to this file, as JSON")
	flag.Parse()
	met, list, err := all(*binary, *only, *kills)
	if err == nil {
		err = rows.Save(*file, "whole", list)
	}
	if err != nil {
		fatal(err)
	}
	if *check && !met {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "whole:", err)
	os.Exit(1)
}

// all plays the scenes, and reports whether what they promise is met.
func all(binary, only string, kills int) (met bool, list []rows.Row, err error) {
	dir, err := os.MkdirTemp("", "bide-whole-")
	if err != nil {
		return false, nil, err
	}
	defer os.RemoveAll(dir)
	if binary == "" {
		binary = filepath.Join(dir, "bide")
		if err := build(binary); err != nil {
			return false, nil, err
		}
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return false, nil, err
	}
	scenes := []struct {
		name string
		play func(*stage) ([]row, error)
	}{
		{"expired-key", expiredKey},
		{"causes", causes},
		{"outage", outage},
		{"kills-while-held", killedWhileHeld},
		{"two-runs-rate", twoRunsRate},
		{"two-runs-slots", twoRunsSlots},
		{"kills-with-slots", killedWithSlots},
		{long, capacity},
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "scene\tpromise\tmeasured\tlimit\t")
	met = true
	found := false
	for _, s := range scenes {
		if only != s.name && (only != "" || s.name == long) {
			continue
		}
		found = true
		st, err := newStage(filepath.Join(dir, s.name), binary, kills)
		if err != nil {
			return false, nil, err
		}
		promises, err := s.play(st)
		st.close()
		if err != nil {
			return false, nil, fmt.Errorf("%s: %w", s.name, err)
		}
		for _, r := range promises {
			list = append(list, rows.Row{What: s.name + ": " + r.what, Got: r.figure, Goal: r.goal, Least: r.least})
			verdict := "met"
			if !r.met {
				verdict, met = "NOT MET", false
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", s.name, r.what, r.got, r.limit, verdict)
		}
	}
	if !found {
		return false, nil, fmt.Errorf("there is no scene %q", only)
	}
	return met, list, t.Flush()
}

// build builds the program of the directory above.
func build(binary string) error {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/bide-dev/bide").Output()
	if err != nil {
		return fmt.Errorf("finding the module of bide: %w", err)
	}
	b := exec.Command("go", "build", "-o", binary, "./cmd/bide")
	b.Dir = strings.TrimSpace(string(dir))
	b.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := b.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// stage is a directory with a home of bide of its own, and a server.
type stage struct {
	dir, bide string
	kills     int
	server    *server
}

func newStage(dir, bide string, kills int) (*stage, error) {
	if err := os.MkdirAll(filepath.Join(dir, "home"), 0o755); err != nil {
		return nil, err
	}
	s, err := serve()
	return &stage{dir, bide, kills, s}, err
}

func (st *stage) close() { st.server.close() }

// command is a call of bide on the stage.
func (st *stage) command(args ...string) *exec.Cmd {
	c := exec.Command(st.bide, args...)
	c.Dir = st.dir
	c.Env = append(os.Environ(), "BIDE_HOME="+filepath.Join(st.dir, "home"), "NO_COLOR=1")
	return c
}

// run calls bide, and gives its exit status and all that it says.
func (st *stage) run(args ...string) (status int, text string, err error) {
	var out bytes.Buffer
	c := st.command(args...)
	c.Stdout, c.Stderr = &out, &out
	err = c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), out.String(), nil
	}
	return 0, out.String(), err
}

// write writes a file of the stage; @URL@ in it is the address of the server, @SELF@ this
// program.
func (st *stage) write(name, text string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text = strings.NewReplacer("@URL@", st.server.url, "@SELF@", self, "@ADDR@", st.server.workers.Addr().String()).Replace(text)
	return os.WriteFile(filepath.Join(st.dir, name), []byte(text), 0o644)
}

// count is how many events of some types the last run has.
func (st *stage) count(types string) (int, error) {
	_, text, err := st.run("events", "last", "--type", types, "--json")
	return strings.Count(text, `"event":`), err
}

// atMost is a promise of a number that is not to be greater.
func atMost(what string, got, limit int) row {
	return row{what, fmt.Sprint(got), fmt.Sprintf("at most %d", limit), got <= limit, float64(got), float64(limit), false}
}

// exactly is a promise of a number; its figure is by how much it is another one.
func exactly(what string, got, want int) row {
	off := max(got-want, want-got)
	return row{what, fmt.Sprint(got), fmt.Sprint(want), off == 0, float64(off), 0, false}
}

// within is a promise of a time.
func within(what string, got, limit time.Duration) row {
	return row{what, got.Round(10 * time.Millisecond).String(), "at most " + limit.Round(10*time.Millisecond).String(), got <= limit, got.Seconds(), limit.Seconds(), false}
}

// share is a promise of a part of what is possible.
func share(what string, got, least float64) row {
	return row{what, fmt.Sprintf("%.3f", got), fmt.Sprintf("at least %.2f", least), got >= least, got, least, true}
}
