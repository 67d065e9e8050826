package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
)

// actionLog is the file in a run's directory that takes what the last action's
// process says; patience is how long a page waits for one that ends at once.
const (
	actionLog = "action.log"
	patience  = 1500 * time.Millisecond
	maxEdit   = 4 << 20 // bytes of an item that is edited
)

// asked is what was asked for last of a run, in this server's time.
type asked struct {
	what  string
	at    time.Time
	seq   int64 // the run's last event by then
	lives int   // and how many processes had had the run
	ended bool
	told  told // how it ended
	// stands is how the run stood at its end: what is told of it is over when the run moves
	// on.
	stands stands
}

// stands is how a run stands, as far as an action can change it.
type stands struct {
	lives  int
	status string
}

// stands tells it; run.mu is held.
func (run *run) stands() stands { return stands{len(run.line.Lives), run.line.Status} }

// told is what a page tells of an action. The zero value is nothing.
type told struct {
	Text   string
	Lines  string // what its process said, whole lines of it
	Rest   string // those after the first few
	More   int    // how many those are
	Failed bool
	Ended  bool
}

// actions are those that were asked for, by run.
type actions struct {
	mu   sync.Mutex
	last map[string]*asked
}

// act does what a button asks for: it starts a process of this program with the
// arguments of one of the actions below, which continues when this server ends.
// What a form says becomes an argument of its own, never a part of one; no
// shell reads it.
func (p *pages) act(w http.ResponseWriter, r *http.Request) {
	p.problem(w, r, p.tryAct(w, r))
}

func (p *pages) tryAct(w http.ResponseWriter, r *http.Request) error {
	if p.opt.ReadOnly {
		return &status{http.StatusForbidden, "This dashboard changes nothing.", "It was started with --read-only."}
	}
	id, err := p.opt.Store.Find(r.PathValue("run"))
	if err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, 3*(maxEdit+maxEdit/8)) // each byte may be three in a form
	if err := r.ParseForm(); err != nil {
		return &status{http.StatusBadRequest, "The form cannot be read.", "It may be too large."}
	}
	switch r.PathValue("action") {
	case "close":
		p.actions.close(id)
		http.Redirect(w, r, back(r, id), http.StatusSeeOther)
		return nil
	case "edit":
		return p.runs.with(id, func(run *run) error { return p.review(w, r, run) })
	}
	var args []string
	var input []byte
	err = p.runs.with(id, func(run *run) error {
		args, input, err = p.arguments(r, run)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.start(id, r.PathValue("action"), args, input); err != nil {
		return err
	}
	if p.waits.forget(); r.PathValue("action") == "dismiss" && !p.actions.failed(id) {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return nil
	}
	http.Redirect(w, r, back(r, id), http.StatusSeeOther)
	return nil
}

// back is the page of the run that a form names, or the run's own page.
func back(r *http.Request, id string) string {
	own := "/runs/" + id
	if to := r.PostForm.Get("back"); strings.HasPrefix(to, own+"/") || strings.HasPrefix(to, own+"?") {
		return to
	}
	return own
}

// arguments are those of the process that carries an action out, and what it
// reads.
func (p *pages) arguments(r *http.Request, run *run) (args []string, input []byte, err error) {
	form, id := r.PostForm, run.id
	switch r.PathValue("action") {
	case "resume":
		return []string{"resume", id, "-q"}, nil, nil
	case "dismiss":
		args = []string{"status", "--dismiss", id}
		for _, also := range form["also"] {
			if also, err = p.opt.Store.Find(also); err != nil {
				return nil, nil, err
			}
			args = append(args, "--dismiss", also)
		}
		return args, nil, nil
	case "merge":
		return []string{"worktree", "merge", id}, nil, nil
	case "stop":
		return []string{"stop", id}, nil, nil
	case "kill":
		return []string{"stop", id, "--now"}, nil, nil
	case journal.Pause, journal.Continue, journal.RetryNow, journal.Probe:
		return []string{"control", id, r.PathValue("action")}, nil, nil
	case journal.Parallel:
		n, err := strconv.Atoi(form.Get("parallel"))
		if err != nil || n < 1 {
			return nil, nil, &status{http.StatusBadRequest, "Items at once is a whole number of at least 1.", "Go back and write another number; nothing was changed."}
		}
		return []string{"control", id, "parallel", strconv.Itoa(n)}, nil, nil
	case "retry":
		args = []string{"dlq", "retry", id, "-q"}
		if _, err := os.Stat(filepath.Join(p.opt.Store.RunDir(id), journal.Elsewhere)); err == nil {
			args = append(args, "--as-recorded") // other machines continue with their copy of the file
		}
		if form.Has("index") {
			item, err := named(r, run)
			if err != nil {
				return nil, nil, err
			}
			args = append(args, "--item="+item)
			if data := form.Get("data"); data != "" {
				if len(data) > maxEdit {
					return nil, nil, tooLarge(id, item)
				}
				if wrong := validJSON(data); wrong != "" {
					return nil, nil, &status{http.StatusBadRequest, wrong, "Go back and mend it; nothing was changed."}
				}
				args, input = append(args, "--data=-"), []byte(data)
			}
		}
		filter := form.Get("filter")
		if g := form.Get("group"); g != "" {
			if strings.Trim(g, "0123456789abcdef") != "" {
				return nil, nil, &status{http.StatusBadRequest, "There is no such group of dead letters.", "The list of dead letters shows those that there are."}
			}
			filter = fmt.Sprintf("group == %q", g)
		}
		if form.Has("filter") && strings.TrimSpace(filter) == "" {
			return nil, nil, &status{http.StatusBadRequest, "The filter is empty.", "Write it as in: class == \"timeout\" && attempts > 2"}
		}
		if filter != "" {
			if _, err := expr.Parse(filter); err != nil {
				return nil, nil, &status{http.StatusBadRequest, "The filter cannot be read: " + err.Error(), "Write it as in: class == \"timeout\" && attempts > 2"}
			}
			args = append(args, "--filter="+filter)
		}
		return args, input, nil
	}
	return nil, nil, &status{http.StatusNotFound, "There is no such action.", "The buttons of the pages show those that there are."}
}

// named is the id of the item that a form is about.
func named(r *http.Request, run *run) (string, error) {
	index, err := strconv.Atoi(r.PostForm.Get("index"))
	if err != nil {
		return "", &status{http.StatusBadRequest, "The form names no item.", "Press the button on the item's own page."}
	}
	it, err := run.r.Item(r.Context(), index)
	if err != nil && !errors.Is(err, journal.ErrNoItem) {
		return "", err
	}
	return itemID(it, index), nil
}

// start starts the process of an action, and waits a moment for its end: most
// of what can be wrong is told at once.
func (p *pages) start(id, what string, args []string, input []byte) error {
	a := &asked{what: what, at: time.Now()}
	err := p.runs.with(id, func(run *run) error {
		return run.lookAnew(func() { a.seq, a.lives = run.seq, len(run.line.Lives) })
	})
	if err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(p.opt.Store.RunDir(id), actionLog), os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("the action cannot be started: %w", err)
	}
	cmd := exec.Command(p.opt.Program[0], append(p.opt.Program[1:len(p.opt.Program):len(p.opt.Program)], args...)...)
	cmd.Env = append(os.Environ(), "BIDE_HOME="+p.opt.Store.Dir)
	cmd.Stdout, cmd.Stderr = out, out
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the terminal's interrupt is not for it
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("the action cannot be started: %w", err), out.Close())
	}
	p.actions.mu.Lock()
	value.Put(&p.actions.last, id, a)
	p.actions.mu.Unlock()
	done := make(chan struct{})
	go func() { // ends with the process, or with this program
		defer close(done)
		err := cmd.Wait()
		said := linesOf(out)
		_ = out.Close() // another process wrote it
		if p.runs.with(id, func(run *run) error {
			return run.lookAnew(func() { p.actions.end(a, run, err, said) })
		}) != nil { // its pages say so
			p.actions.forget(id, a)
		}
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
	return nil
}

// end takes the end of an action's process; run.mu is held. What became of the run is told
// by its pages: an action has failed where its process did, and no process took the run.
func (x *actions) end(a *asked, run *run, err error, said []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a.ended, a.stands = true, run.stands()
	code := -1
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	switch again := run.items.againSince(a.seq); {
	case len(again) > 0:
		a.told.Text = run.ranAgain(again)
	case err == nil, a.stands.lives > a.lives, code == 130, code == 143:
		return
	case code == exitPartly:
		a.told.fill("The action “"+a.what+"” has ended:", said)
	default:
		a.told.Failed = true
		a.told.fill("The action “"+a.what+"” failed:", said)
	}
	a.told.Ended = true
}

// exitPartly is the exit status of a command that has done what it should, and leaves
// something.
const exitPartly = 3

// maxSaid is how many lines of what a process said are in the open, and maxFolded how
// many more can be unfolded; the rest is in the run's directory.
const (
	maxSaid   = 4
	maxFolded = 200
)

// fill takes what a process said.
func (t *told) fill(text string, said []string) {
	if t.Text = text; len(said) == 0 {
		t.Text = strings.TrimSuffix(text, ":") + ", and said nothing."
		return
	}
	first := min(maxSaid, len(said))
	rest := said[first:]
	t.Lines, t.More = strings.Join(said[:first], "\n"), len(rest)
	t.Rest = strings.Join(rest[:min(maxFolded, len(rest))], "\n")
	if len(rest) > maxFolded {
		t.Rest += "\n… all of it is in " + actionLog + " in the run's directory"
	}
}

// ranAgain says what became of items that an action ran again; run.mu is held.
func (run *run) ranAgain(items []int) string {
	succeeded, failed := 0, 0
	for _, index := range items {
		switch s := run.items.status(index - 1); {
		case s == journal.ItemSucceeded:
			succeeded++
		case s.Done():
			failed++
		}
	}
	n := len(items)
	text := fmt.Sprintf("%s of %s ran again and succeeded", timeline.Number(succeeded), diag.Count(n, "item"))
	if failed > 0 {
		text += fmt.Sprintf(", %s failed again", timeline.Number(failed))
	}
	if open := n - succeeded - failed; open > 0 {
		text += fmt.Sprintf(", %s did not finish", timeline.Number(open))
	}
	others := len(run.items.letters)
	for _, index := range items {
		if _, ok := run.items.letters[index]; ok {
			others--
		}
	}
	if others > 0 {
		text += fmt.Sprintf("; %s %s still %s", timeline.Number(others), diag.Plural(others, "other is", "others are"), diag.Plural(others, "a dead letter", "dead letters"))
	}
	return text + "."
}

// maxLog is how much is read of what a process said, in bytes.
const maxLog = 1 << 20

// linesOf is what a process said, without the program's own name before it.
func linesOf(f *os.File) (lines []string) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxLog))
	if err != nil {
		return nil
	}
	text := strings.TrimRight(strings.ToValidUTF8(string(b), "�"), " \n")
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimPrefix(line, "bide: "); line != "" || len(lines) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// tells what was asked for last of a run and how that went; run.mu is held.
func (x *actions) tells(run *run) told {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.last[run.id]
	switch {
	case a == nil:
		return told{}
	case !a.ended:
		return told{Text: "The action “" + a.what + "” started " + timeline.Short(time.Since(a.at)) + " ago and is still running."}
	case a.stands != run.stands():
		delete(x.last, run.id)
		return told{}
	}
	return a.told
}

// failed reports whether what was asked for last of a run has failed.
func (x *actions) failed(id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.last[id]
	return a != nil && a.told.Failed
}

// close forgets what was asked for of a run, if it has ended.
func (x *actions) close(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if a := x.last[id]; a != nil && a.ended {
		delete(x.last, id)
	}
}

// forget forgets an action, if it is the last one of its run.
func (x *actions) forget(id string, a *asked) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last[id] == a {
		delete(x.last, id)
	}
}
