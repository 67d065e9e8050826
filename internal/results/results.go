// Package results makes what reduce reads of a map out of the results of its items: map.*,
// and the file that holds map.results.
package results

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
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// Map is a map that has ended.
type Map struct {
	Executor *step.Executor
	Counts   event.ItemCounts
	// Items gives at most limit work items from an index on as they are recorded: with
	// their secrets masked.
	Items func(ctx context.Context, from, limit int) ([]event.Item, error)
}

// maxInline is the largest map.results that is held in memory as a variable.
const maxInline = 64 << 20

// Save sets map.*: the counts, and the results of all items in order, as a value and as a
// file of a name, which it gives.
func (m *Map) Save(ctx context.Context, p step.Place, name string, results iter.Seq2[journal.Result, error]) (string, error) {
	size, millis, err := m.save(ctx, name, results)
	if err != nil {
		return "", fmt.Errorf("map.results: %w", err)
	}
	counts := m.counts(millis)
	counts["results_file"] = name
	var lines []byte
	if size <= maxInline {
		if lines, err = os.ReadFile(name); err != nil {
			return "", err
		}
	} else {
		m.Executor.Note("the results of the map are %s: ${map.results} is not there, read ${map.results_file}", diag.Bytes(size))
	}
	if err := set(p, counts, lines, size <= maxInline); err != nil {
		return "", err
	}
	p.Scope.SetTrusted("map.results_file", name)
	p.Scope.SetFile("map.results", "map.results_file")
	p.Scope.SetFile("map.results_json", "map.results_file")
	return name, nil
}

// Set sets map.* without a file.
func (m *Map) Set(ctx context.Context, p step.Place, results iter.Seq2[journal.Result, error]) error {
	var text bytes.Buffer
	millis, err := m.write(ctx, &text, results)
	if err != nil {
		return err
	}
	counts := m.counts(millis)
	counts["results_file"] = File
	return set(p, counts, text.Bytes(), true)
}

// MakeUp sets map.* where nobody keeps what the items gave: of each there is its id.
func (m *Map) MakeUp(p step.Place, list []event.Item) {
	results := make([]any, min(len(list), maxMadeUp))
	for i := range results {
		results[i] = map[string]any{"item_id": list[i].ID, "index": int64(i), "output": ""}
	}
	counts := m.counts(0)
	counts["results"], counts["results_array"], counts["outputs"] = results, results, outputsOf(results)
	counts["results_json"], counts["results_file"] = "[]", File
	p.Scope.Set("map", counts)
}

// maxMadeUp bounds what MakeUp makes.
const maxMadeUp = 1000

// File is the name of the file that holds map.results, one JSON object a line.
const File = "results.jsonl"

// set sets map.*, with the results where they are not too many to be a
// variable; lines has one JSON object for each of them.
func set(p step.Place, m map[string]any, lines []byte, fit bool) error {
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

// counts are the numbers in map.*; millis is what all items took.
func (m *Map) counts(millis int64) map[string]any {
	c := m.Counts
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

// save streams the results of all finished items into a file, and adds up how many milliseconds they took.
func (m *Map) save(ctx context.Context, name string, results iter.Seq2[journal.Result, error]) (size, millis int64, err error) {
	err = files.Replace(name, 0o600, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 256<<10)
		var werr error
		millis, werr = m.write(ctx, w, results)
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

// write writes results as JSON, one object a line.
func (m *Map) write(ctx context.Context, w io.Writer, results iter.Seq2[journal.Result, error]) (millis int64, err error) {
	items := cursor{read: m.Items}
	for res, err := range results {
		if err != nil {
			return 0, err
		}
		item, err := items.data(ctx, res.Index)
		if err != nil {
			return 0, err
		}
		if _, err := w.Write(append(m.json(res, item), '\n')); err != nil {
			return 0, err
		}
		millis += res.DurationMS
	}
	return millis, nil
}

// cursor reads the data of items whose indexes grow.
type cursor struct {
	read func(ctx context.Context, from, limit int) ([]event.Item, error)
	list []event.Item
}

// data is an item as it is recorded: with its secrets masked.
func (c *cursor) data(ctx context.Context, index int) (json.RawMessage, error) {
	for len(c.list) > 0 && c.list[0].Index < index {
		c.list = c.list[1:]
	}
	if len(c.list) == 0 {
		var err error
		if c.list, err = c.read(ctx, index, 256); err != nil {
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

// json is an element of map.results as it is written.
func (m *Map) json(res journal.Result, item json.RawMessage) []byte {
	out := itemResult{ItemID: res.ID, Index: event.Number(res.Index), Item: item, Status: res.Status, Success: res.Status == event.Succeeded || res.Status == event.Degraded || res.Status == event.Unchanged,
		Error: res.Message, Class: res.Class, Attempts: res.Attempts, DurationMS: res.DurationMS, Steps: []stepResult{}}
	var d mapper.Result
	if len(res.Data) == 0 || json.Unmarshal(res.Data, &d) != nil {
		return step.Data(out)
	}
	out.Success = out.Success && !d.Unmended
	text := d.Raw.Text("/output", d.Output)
	out.OutputFile, out.Commits, out.Files = d.File, d.Commits, d.Files
	out.Branch, out.Worktree, out.Log = d.Branch, d.Worktree, d.Log
	if d.File != "" && d.Size <= step.MaxVar {
		if b, err := os.ReadFile(d.File); err == nil {
			text = strings.TrimRight(string(b), "\n")
		}
	}
	out.Output, out.Steps = text, m.steps(&res, d, out.Success, text)
	return step.Data(out)
}

// steps takes an item's output apart again. Where the one step of a template ended as its
// item did, it is not recorded, and its output is the item's.
func (m *Map) steps(res *journal.Result, d mapper.Result, well bool, text string) []stepResult {
	if len(d.Steps) == 0 {
		status := event.Succeeded
		if !well {
			status = event.Failed
		}
		if len(m.Executor.File.Map.Template.Steps) != 1 || !well && journal.FailedStep(res.Data) == "" { // it failed before its step
			return []stepResult{}
		}
		s := m.Executor.File.Map.Template.Steps[0]
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
func part(d mapper.Result, text string, from, size int64) string {
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
