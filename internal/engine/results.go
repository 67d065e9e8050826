package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/items"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// This file makes what reduce reads of a map: an item's output out of those of
// its steps, and map.* out of all items.

// collect takes an item's output: those of its steps, joined by line ends. A
// large one is kept as a file, in which the sizes of the parts find each step's.
func (x *mapRun) collect(a *agentRun, ended []step.Outcome) {
	var parts []string
	var file string // of the one step that printed something
	for i, out := range ended {
		if out.Status == "" {
			continue // it was never come to
		}
		if kind := out.Kind(); kind != event.Skipped && slices.Index(event.Kinds, kind) > slices.Index(event.Kinds, a.Result.Kind) {
			a.Result.Kind = kind
		}
		s := x.r.file.Map.Template.Steps[i]
		text := x.r.env.Mask().String(out.Result.Output)
		if len(ended) > 1 {
			a.Result.Steps = append(a.Result.Steps, mapper.StepOutput{Step: s.Label(), ID: s.ID, Status: out.Status, Size: int64(len(text))})
		}
		if text == "" {
			continue
		}
		parts = append(parts, text)
		if file = ""; out.Result.Usage == nil { // an agent's file is its raw stream
			file = out.Result.StdoutFile
		}
	}
	text := strings.Join(parts, "\n")
	a.Result.Output = x.r.x.Clip(text)
	if len(text) <= step.Inline {
		return
	}
	a.Result.Size = int64(len(text))
	if len(parts) == 1 && file != "" {
		a.Result.File = file
		return
	}
	name, err := x.r.host.keep(a.Item.Index, a.Attempt, "item", text)
	switch {
	case err != nil:
		x.r.x.NoteOnce("save", fmt.Sprintf("the output of item %s: %v", items.NameOf(x.r.env.Mask(), a.Item), err))
	case name == "":
		x.r.x.NoteOnce("save", fmt.Sprintf("the output of item %s is %d bytes and kept nowhere: what reads it has its ends", items.NameOf(x.r.env.Mask(), a.Item), len(text)))
	}
	if err == nil {
		a.Result.File = name
	}
}

// reduce runs the reduce steps with all that the map gave. The journal forgets
// those of an earlier reduce once dead letters are run again.
func (r *run) reduce(ctx context.Context, p step.Site) error {
	name, err := r.host.results(ctx, p)
	if err != nil {
		return err
	}
	if name != "" {
		p.Env = p.Env.Export("BIDE_RESULTS_FILE", name)
	}
	return r.x.Block(ctx, p, r.file.Reduce, "reduce", nil)
}

// maxInline is the largest map.results that is held in memory as a variable.
const maxInline = 64 << 20

// setMapVariables sets map.*: the counts, and the results of all items in
// order, as a value and as a file of a name, which it gives.
func (r *run) setMapVariables(ctx context.Context, p step.Site, name string, results iter.Seq2[journal.Result, error]) (string, error) {
	size, millis, err := r.saveResults(ctx, name, results)
	if err != nil {
		return "", fmt.Errorf("map.results: %w", err)
	}
	m := r.mapCounts(millis)
	m["results_file"] = name
	var lines []byte
	if size <= maxInline {
		if lines, err = os.ReadFile(name); err != nil {
			return "", err
		}
	} else {
		r.note("the results of the map are %s: ${map.results} is not there, read ${map.results_file}", diag.Bytes(size))
	}
	if err := setResults(p, m, lines, size <= maxInline); err != nil {
		return "", err
	}
	p.Scope.SetTrusted("map.results_file", name)
	p.Scope.SetFile("map.results", "map.results_file")
	p.Scope.SetFile("map.results_json", "map.results_file")
	return name, nil
}

// resultsFile is the name of the file that holds map.results, one JSON object a line.
const resultsFile = "results.jsonl"

// setResults sets map.*, with the results where they are not too many to be a
// variable; lines has one JSON object for each of them.
func setResults(p step.Site, m map[string]any, lines []byte, fit bool) error {
	if fit {
		text := slices.Concat([]byte("["), bytes.ReplaceAll(bytes.TrimSuffix(lines, []byte("\n")), []byte("\n"), []byte(",\n")), []byte("]"))
		v, err := value.Parse(text)
		if err != nil {
			return fmt.Errorf("map.results: %w", err)
		}
		m["results"], m["results_array"], m["results_json"], m["outputs"] = v, v, string(text), outputsOf(v)
		p.Scope.SetValue("map.results", template.Value{V: v, Origin: template.Data, Raw: string(text)})
		p.Scope.SetValue("map.results_json", template.Value{V: string(text), Origin: template.Data})
	}
	p.Scope.Set("map", m)
	return nil
}

// mapCounts are the numbers in map.*; millis is what all items took.
func (r *run) mapCounts(millis int64) map[string]any {
	c := r.tally.items
	rate, failures := 0.0, 0.0 // in percent; from 0 to 1
	well := c.Succeeded + c.Unchanged - c.Unmended
	if c.Total > 0 {
		rate = 100 * float64(well) / float64(c.Total)
		failures = float64(c.Failed) / float64(c.Total)
	}
	total, mean := float64(millis)/1000, 0.0
	if n := c.Succeeded + c.Failed + c.Skipped; n > 0 {
		mean = total / float64(n)
	}
	return map[string]any{
		"successful": int64(well), "succeeded": int64(well), "unchanged": int64(c.Unchanged), "failed": int64(c.Failed), "skipped": int64(c.Skipped),
		"tolerated": int64(c.Tolerated), "success_count": int64(well), "failure_count": int64(c.Failed),
		"total": int64(c.Total), "success_rate": value.FromNumber(fmt.Sprintf("%.4g", rate)),
		"failure_rate":          value.FromNumber(fmt.Sprintf("%.4g", failures)),
		"total_duration_secs":   value.FromNumber(fmt.Sprintf("%.3f", total)),
		"average_duration_secs": value.FromNumber(fmt.Sprintf("%.3f", mean)),
	}
}

// outputsOf gives the outputs of the items that succeeded, in their order.
func outputsOf(results any) []any {
	list, _ := results.([]any)
	outputs := make([]any, 0, len(list))
	for _, it := range list {
		if m, ok := it.(map[string]any); ok && m["success"] == true {
			outputs = append(outputs, m["output"])
		}
	}
	return outputs
}

// saveResults streams the results of all finished items into a file, and adds up how many milliseconds they took.
func (r *run) saveResults(ctx context.Context, name string, results iter.Seq2[journal.Result, error]) (size, millis int64, err error) {
	err = files.Replace(name, 0o600, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 256<<10)
		var werr error
		millis, werr = r.writeResults(ctx, w, results)
		if werr = errors.Join(werr, w.Flush()); werr != nil {
			return werr
		}
		info, werr := f.Stat()
		if werr == nil {
			size = info.Size()
		}
		return werr
	})
	return size, millis, err
}

// writeResults writes results as JSON, one object a line.
func (r *run) writeResults(ctx context.Context, w io.Writer, results iter.Seq2[journal.Result, error]) (millis int64, err error) {
	items := itemCursor{r: r}
	for res, err := range results {
		if err != nil {
			return 0, err
		}
		item, err := items.data(ctx, res.Index)
		if err != nil {
			return 0, err
		}
		if _, err := w.Write(append(r.resultJSON(res, item), '\n')); err != nil {
			return 0, err
		}
		millis += res.DurationMS
	}
	return millis, nil
}

// itemCursor reads the data of items whose indexes grow.
type itemCursor struct {
	r    *run
	list []event.Item
}

// data is an item as it is recorded: with its secrets masked.
func (c *itemCursor) data(ctx context.Context, index int) (json.RawMessage, error) {
	if d := c.r.state.Items.Edited(index); d != nil {
		return d, nil
	}
	for len(c.list) > 0 && c.list[0].Index < index {
		c.list = c.list[1:]
	}
	if len(c.list) == 0 {
		var err error
		if c.list, err = c.r.host.items(ctx, index, 256); err != nil {
			return nil, err
		}
	}
	if len(c.list) == 0 || c.list[0].Index != index {
		return nil, fmt.Errorf("item %d is not in the list", index)
	}
	return c.list[0].Data, nil
}

// itemResult is one element of map.results.
type itemResult struct {
	ItemID     string          `json:"item_id"`
	Index      int             `json:"index"`
	Item       json.RawMessage `json:"item"`
	Status     string          `json:"status"`
	Success    bool            `json:"success"`
	Output     any             `json:"output"`
	OutputFile string          `json:"output_file,omitempty"`
	Steps      []stepResult    `json:"steps"`
	Error      string          `json:"error,omitempty"`
	Class      string          `json:"class,omitempty"`
	Attempts   int             `json:"attempts"`
	DurationMS int64           `json:"duration_ms"`
	Commits    []string        `json:"commits,omitempty"`
	Files      []string        `json:"files_modified,omitempty"`
	Branch     string          `json:"branch_name,omitempty"`
	Worktree   string          `json:"worktree_path,omitempty"`
	Log        string          `json:"json_log_location,omitempty"`
}

// stepResult is what one step of an item gave.
type stepResult struct {
	Step   string `json:"step"`
	ID     string `json:"id,omitempty"`
	Status string `json:"status"`
	Output string `json:"output"`
}

func (r *run) resultJSON(res journal.Result, item json.RawMessage) []byte {
	out := itemResult{ItemID: res.ID, Index: event.Number(res.Index), Item: item, Status: res.Status, Success: res.Status == event.Succeeded || res.Status == event.Degraded || res.Status == event.Unchanged,
		Error: res.Message, Class: res.Class, Attempts: res.Attempts, DurationMS: res.DurationMS, Steps: []stepResult{}}
	var d itemData
	if len(res.Data) == 0 || json.Unmarshal(res.Data, &d) != nil {
		return data(out)
	}
	out.Success = out.Success && !d.Unmended
	text := d.Output
	out.OutputFile, out.Commits, out.Files = d.File, d.Commits, d.Files
	out.Branch, out.Worktree, out.Log = d.Branch, d.Worktree, d.Log
	if d.File != "" && d.Size <= step.MaxVar {
		if b, err := os.ReadFile(d.File); err == nil {
			text = strings.TrimRight(string(b), "\n")
		}
	}
	out.Output, out.Steps = text, r.stepResults(d, res.Status, text)
	return data(out)
}

// stepResults takes an item's output apart again. Of a template with one step
// that step's output is the item's.
func (r *run) stepResults(d itemData, status, text string) []stepResult {
	if len(d.Steps) == 0 {
		if len(r.file.Map.Template.Steps) != 1 {
			return []stepResult{}
		}
		s := r.file.Map.Template.Steps[0]
		return []stepResult{{Step: s.Label(), ID: s.ID, Status: status, Output: text}}
	}
	spoke, at := 0, int64(0)
	for _, s := range d.Steps {
		if s.Size > 0 {
			spoke++
		}
	}
	list := make([]stepResult, len(d.Steps))
	for i, s := range d.Steps {
		list[i] = stepResult{Step: s.Step, ID: s.ID, Status: s.Status}
		switch {
		case s.Size == 0:
		case spoke == 1:
			list[i].Output = text
		default:
			list[i].Output = part(d, text, at, s.Size)
			at += s.Size + 1 // the line end between two
		}
	}
	return list
}

// part is a part of an item's output: out of its text where that is whole, else
// out of its file, as much of it as a variable holds.
func part(d itemData, text string, from, size int64) string {
	if d.File == "" || d.Size <= step.MaxVar {
		return text[min(from, int64(len(text))):min(from+size, int64(len(text)))]
	}
	f, err := os.Open(d.File)
	if err != nil {
		return text // the ends of it all, and where the rest is
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, size)
	n, _ := f.ReadAt(b, from) // a file that was cut gives less
	return string(b[:n])
}
