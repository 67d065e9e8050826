package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/timeline"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

const (
	maxShown   = 64 << 10 // of an item's data and of its result, in bytes
	maxDiff    = 512 << 10
	maxName    = 80 // of an item, in a list
	gitTimeout = 5 * time.Second
)

type itemBody struct {
	Run      string
	Index    int
	ID       string
	Called   string // by commands and pages: see calledItem
	Name     string // what a person knows it by, where that is something else
	State    string
	Attempts int
	Data     text // as JSON, indented
	Original text // before it was edited; empty if it was not
	Events   []itemEvent
	Tries    []itemTry
	Does     []itemDoes
	Result   text
	Output   text
	Letter   *itemEvent
	Work     work
	Evidence *mapper.Evidence // what it has shown; nil where nothing was asked of it
	Merge    string           // the commit that merged its work then
	Previous int
	Next     int
	CanRetry bool
}

// itemEvent is one line of an item's history.
type itemEvent struct {
	event.Event
	Text    string
	NoRetry string // of the item's own retries, why they ended
}

// itemTry is one attempt at an item with those of its steps.
type itemTry struct {
	N      int
	Status string
	After  string // the class of what failed after its steps; "" where a step failed, or nothing
	Steps  []itemStep
}

type itemStep struct {
	tried
	Href string
}

// itemDoes is what a step does.
type itemDoes struct {
	Label string
	command
}

// maxDoes bounds the steps of an item of which that is shown.
const maxDoes = 20

// work is what an agent left in git.
type work struct {
	Commits          []string
	Files            []string
	Branch, Worktree string
	Diff             []diffLine
	DiffError        string
}

// text is a text of which a page shows at most maxShown bytes.
type text string

// Shown is what a page shows of it.
func (t text) Shown() string { return diag.ClipBytes(string(t), maxShown) }

// Left says that more is there, if so.
func (t text) Left() string {
	if len(t) <= maxShown {
		return ""
	}
	return "The first " + diag.Bytes(maxShown) + " of " + diag.Bytes(int64(len(t)))
}

// Large says that an item is not edited in its page, but in one of its own; TooLarge,
// that it cannot be edited in a browser.
func (b itemBody) Large() bool { return len(b.Data) > maxShown }

// TooLarge is documented at Large.
func (b itemBody) TooLarge() bool { return len(b.Data) > maxEdit }

type diffLine struct{ Class, Text string }

// itemName is what a person knows an item by: its label, its id where that is
// more than a number, or else the beginning of its data.
func itemName(label string, it event.Item) string {
	if label != "" && label != it.Name() {
		return diag.ClipBytes(label, maxName)
	}
	if strings.Trim(it.ID, "0123456789") != "" {
		return diag.ClipBytes(it.ID, maxName)
	}
	var data bytes.Buffer
	if json.Compact(&data, it.Data) != nil {
		return diag.ClipBytes(string(it.Data), maxName)
	}
	return diag.ClipBytes(data.String(), maxName)
}

// OwnID is the id that the list gave the item, where it gave one.
func (b itemBody) OwnID() string {
	if b.ID == strconv.Itoa(event.Number(b.Index)) {
		return ""
	}
	return b.ID
}

// calledItem is what the pages call an item, as dlq list does: by the id that the list gave it,
// else by its place.
func calledItem(it event.Item, index int) string {
	if id := itemID(it, index); id != strconv.Itoa(event.Number(index)) {
		return diag.ClipBytes(id, maxName)
	}
	return timeline.Number(event.Number(index))
}

// itemID is the id by which commands know an item: one that the list gave, or
// its place in it.
func itemID(it event.Item, index int) string {
	return cmp.Or(it.ID, strconv.Itoa(event.Number(index)))
}

func (p *pages) itemPage(w http.ResponseWriter, r *http.Request, run *run) error {
	number, err := strconv.Atoi(r.PathValue("number"))
	index := event.IndexOf(number)
	b := itemBody{Run: run.id, Index: index, CanRetry: !p.opt.ReadOnly}
	total := 0
	head, lerr := p.headOf(r, run, func() {
		if total = len(run.items.cells); err == nil && index >= 1 && index <= total {
			b.State, b.Attempts = stateName(run.items.status(index-1)), run.items.triesOf(index-1)
		}
	})
	if lerr != nil {
		return lerr
	}
	if b.State == "" {
		return &status{http.StatusNotFound, "There is no such item.", "The run has " + timeline.Number(total) + " " + diag.Plural(total, "item") + ", numbered from 0."}
	}
	b.Previous = index - 1
	if index < total {
		b.Next = index + 1
	}
	if err := p.fillItem(r, run, &b); err != nil {
		return err
	}
	return p.show(w, "item", frame{Title: strings.TrimSuffix("Item "+b.Called+": "+b.Name, ": "), Run: head, Live: "run", Body: b})
}

func (p *pages) fillItem(r *http.Request, run *run, b *itemBody) error {
	item, err := run.r.Item(r.Context(), b.Index)
	if err != nil && !errors.Is(err, journal.ErrNoItem) {
		return err
	}
	b.Data = indented(item.Data)
	own, all, err := run.itemAttempts(r.Context(), b.Index)
	if err != nil {
		return err
	}
	if item.ID == "" && len(own) > 0 { // the list is not there
		item.ID = own[0].Item
	}
	b.ID = itemID(item, b.Index)
	labels := run.labels()
	for i := range all {
		all[i].Label = labels.Of(all[i].Step, all[i].Label, func() (event.Item, error) {
			it := item
			for _, e := range own {
				if data := e.EditedItem(); data != nil && !e.Time.After(all[i].Began) {
					it.Data = data
				}
			}
			return it, err
		})
	}
	b.tries(all)
	label, names := "", map[string]string{}
	for _, t := range all {
		names[t.Step] = t.Label
	}
	for _, e := range own {
		if e.Type == event.ItemStarted {
			label = e.Label
		}
		b.take(e, names)
	}
	b.failed(own)
	if b.Called, b.Name = calledItem(item, b.Index), itemName(label, item); b.Name == b.Called {
		b.Name = ""
	}
	b.once()
	if err := b.commands(run.r); err != nil {
		return err
	}
	if b.Work.Branch != "" || len(b.Work.Commits) > 0 {
		b.Work.diff(r.Context(), run.r.Header().Dir)
	}
	return nil
}

// tries groups the attempts of steps by the attempt at the item.
func (b *itemBody) tries(all []tried) {
	for _, t := range all {
		if n := len(b.Tries); n == 0 || b.Tries[n-1].N != t.ItemTry {
			b.Tries = append(b.Tries, itemTry{N: t.ItemTry})
		}
		try := &b.Tries[len(b.Tries)-1]
		s := itemStep{tried: t}
		s.Href = "/runs/" + b.Run + "/step?" + string(stepBody{Path: t.Step, Index: b.Index, Shown: &t}.With("", ""))
		try.Steps = append(try.Steps, s)
		try.Status = t.State()
	}
	slices.Reverse(b.Tries)
}

// failed says of the attempts at the item whose steps all succeeded, and which failed
// after them, that they did: their work could not be merged, or was not proven.
func (b *itemBody) failed(own []event.Event) {
	for _, e := range own {
		if e.Type != event.ItemRetry && (e.Type != event.ItemFinished || e.Status != event.DeadLettered && e.Status != event.Failed) {
			continue
		}
		for i := range b.Tries {
			if try := &b.Tries[i]; try.N == max(e.Attempt, e.Attempts) && try.Status != event.Failed {
				try.Status, try.After = event.Failed, e.Class
			}
		}
	}
}

// theSame is in the place of an error that the page has already.
const theSame = "the same error"

// once leaves out of the attempts what the dead letter says, or an attempt that stands
// before, and of the history and the result what is there.
func (b *itemBody) once() {
	said := map[string]bool{}
	if b.Letter != nil {
		said[b.Letter.Message] = true
		if strings.Contains(b.Letter.Message, strings.TrimSpace(string(b.Output))) {
			b.Output = ""
		}
	}
	for i := range b.Tries {
		for j := range b.Tries[i].Steps {
			e := &b.Tries[i].Steps[j].Event
			if e.Message != "" && said[e.Message] {
				e.Message = theSame
				continue
			}
			said[e.Message] = true
		}
	}
	for i := range b.Events {
		if said[b.Events[i].Message] {
			b.Events[i].Message = ""
		}
	}
}

// commands says what the steps do, each once, and agents' prompts as they were sent
// last.
func (b *itemBody) commands(r *journal.Reader) error {
	does, last := commandsOf(r.Header()), map[string]*tried{}
	var order []string
	for _, try := range slices.Backward(b.Tries) {
		for i := range try.Steps {
			path, _, _ := strings.Cut(try.Steps[i].Step, "@")
			if last[path] == nil {
				order = append(order, path)
			}
			last[path] = &try.Steps[i].tried
		}
	}
	for _, path := range order[:min(len(order), maxDoes)] {
		t, c := last[path], does(path)
		if c.Kind == (*workflow.Claude)(nil).Kind() {
			if err := c.sent(r, t); err != nil {
				return err
			}
		}
		if c.Text != "" {
			b.Does = append(b.Does, itemDoes{cmp.Or(t.Label, path), c})
		}
	}
	return nil
}

// take takes an event of the item itself. names are what its steps are called, by their paths.
func (b *itemBody) take(e event.Event, names map[string]string) {
	line := itemEvent{Event: e}
	switch e.Type {
	case event.ItemStarted:
		line.Text = "attempt " + strconv.Itoa(e.Attempt) + " began"
		if e.Message != "" {
			line.Text += ": " + e.Message
		}
	case event.ItemRetry:
		line.Text = "attempt " + strconv.Itoa(e.Attempt) + " failed; the next one follows in " + timeline.Short(time.Duration(e.DelayMS)*time.Millisecond)
	case event.ItemFinished:
		line.Text = strings.ReplaceAll(e.Status, "_", " ")
		if e.Status == event.Unchanged {
			line.Text = e.Message
		}
		b.Letter = nil
		if e.Status == event.DeadLettered {
			line.Text = "failed for good: it is a dead letter"
			line.NoRetry = event.RetriesEnded(retriesEnded(e))
			b.Letter = &line
		}
		b.result(e)
	case event.ItemReturned:
		line.Text = "does not count: the map is held for what failed"
		if e.Attempt > 0 {
			line.Text = "attempt " + strconv.Itoa(e.Attempt) + " failed and does not count: the map is held for it"
		}
	case event.ItemRequeued:
		line.Text = "is run again"
		b.Letter = nil
		if data := e.EditedItem(); data != nil {
			line.Text = "was edited, and is run again"
			b.Original = cmp.Or(b.Original, b.Data)
			b.Data = indented(data)
		}
	case event.ItemRemoved:
		line.Text = "was given up"
		b.Letter = nil
	case event.RetryScheduled:
		line.Text = cmp.Or(names[e.Step], e.Step) + ": attempt " + strconv.Itoa(e.Attempt+1) + " follows in " + timeline.Short(time.Duration(e.DelayMS)*time.Millisecond)
	case event.ItemMerging:
		line.Text = "its work is being merged"
		if e.Status == event.Pending {
			line.Text = "its work waits in the merge queue"
		}
	case event.ItemHandlerDue:
		line.Text = "has failed; its handler runs"
	default:
		return
	}
	b.Events = append(b.Events, line)
}

// retriesEnded is the reason that a dead letter has for the end of the item's own retries.
func retriesEnded(e event.Event) string {
	var l mapper.Letter
	if json.Unmarshal(e.Data, &l) != nil {
		return "" // it tells of none
	}
	return l.RetriesEnded
}

// result takes what an item_finished carries.
func (b *itemBody) result(e event.Event) {
	var d struct {
		Output   string          `json:"output"`
		Raw      value.Raw       `json:"raw"`
		Result   json.RawMessage `json:"result"`
		Commits  []string        `json:"commits"`
		Files    []string        `json:"files_modified"`
		Branch   string          `json:"branch"`
		Worktree string          `json:"worktree"`

		Evidence *mapper.Evidence `json:"evidence"`
		Merge    string           `json:"merge"`
	}
	if len(e.Data) == 0 || json.Unmarshal(e.Data, &d) != nil {
		return
	}
	b.Output, b.Result = text(strings.ToValidUTF8(d.Raw.Text("/output", d.Output), "�")), indented(d.Result)
	b.Evidence, b.Merge = d.Evidence, d.Merge
	b.Work = work{Commits: d.Commits, Files: d.Files, Branch: d.Branch, Worktree: d.Worktree}
}

// indented is JSON for people.
func indented(data []byte) text {
	var out bytes.Buffer
	if json.Indent(&out, data, "", "  ") != nil {
		return text(data)
	}
	return text(out.String())
}

// diff asks git what the commits changed. Their names come from the journal;
// they reach git as names of commits or branches and as nothing else.
func (k *work) diff(ctx context.Context, dir string) {
	args := []string{"-c", "core.fsmonitor=false", "show", "--no-color", "--no-ext-diff", "--no-textconv", "--stat", "--patch"}
	if len(k.Commits) > 0 {
		args = append(args, "--end-of-options")
		for _, c := range k.Commits[:min(len(k.Commits), 20)] {
			if strings.Trim(c, "0123456789abcdef") != "" || len(c) < 7 {
				k.DiffError = "a commit has no name that git would know"
				return
			}
			args = append(args, c)
		}
	} else {
		args[2] = "log"
		args = append(args, "--max-count=20", "refs/heads/"+k.Branch, "--not", "HEAD", "--")
	}
	text, err := git(ctx, dir, args...)
	if err != nil {
		k.DiffError = err.Error()
		return
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		class := ""
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "commit "):
			class = "file"
		case strings.HasPrefix(line, "@@"):
			class = "place"
		case strings.HasPrefix(line, "+"):
			class = "plus"
		case strings.HasPrefix(line, "-"):
			class = "minus"
		}
		k.Diff = append(k.Diff, diffLine{class, line})
	}
}

// git runs git in a directory and gives at most maxDiff bytes of what it says.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return "", errors.New("git cannot be started")
	}
	b, rerr := io.ReadAll(io.LimitReader(out, maxDiff))
	if len(b) == maxDiff {
		cancel() // the rest is not shown
	}
	err = cmd.Wait()
	if len(b) == maxDiff {
		return strings.ToValidUTF8(string(b), "�") + "\n… the rest is left out", nil
	}
	if err = errors.Join(err, rerr); err != nil {
		return "", errors.New("git no longer has this commit: " + diag.ClipBytes(strings.TrimSpace(said.String()), 300))
	}
	return strings.ToValidUTF8(string(b), "�"), nil
}
