package unchanged

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/files"
	"github.com/bide-dev/bide/internal/step"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
	"github.com/bide-dev/bide/internal/workflow"
)

// The bounds of what is read of the files of one item. Where one is reached,
// nothing is known of the item, and it runs.
const (
	maxPrintFiles = 1000
	maxPrintBytes = 1 << 30
	maxPrintTexts = 1000 // texts in an item that may be names of files
	maxPrintName  = 4096
)

// shownInputs is how many files of an item are recorded by name.
const shownInputs = 16

// sum is a digest with the key of the home: without that, nobody finds out by it
// what was digested, which may be a secret.
type sum [16]byte

// tag is the beginning of a digest. It tells which part of a fingerprint differs,
// and never that none does.
type tag [3]byte

func (s sum) tag() tag { return tag(s[:3]) }

func (t tag) String() string { return base64.RawStdEncoding.EncodeToString(t[:]) }

// imprint is the fingerprint of an item: of all that counts for whether it is
// unchanged.
type imprint struct {
	id                   sum // of its data as it is recorded: which item it is
	whole                sum // of all; zero where something is not known
	steps, values, files tag
	inputs               map[string]string // tags of files by name
	unsure               string            // why whole is zero
}

const printSize = 2*len(sum{}) + 3*len(tag{})

// String is the print as it is recorded.
func (p *imprint) String() string {
	return base64.RawStdEncoding.EncodeToString(slices.Concat(p.id[:], p.whole[:], p.steps[:], p.values[:], p.files[:]))
}

// parsePrint reads a recorded print.
func parsePrint(text string) (p imprint, ok bool) {
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(b) != printSize {
		return p, false
	}
	for _, to := range [][]byte{p.id[:], p.whole[:], p.steps[:], p.values[:], p.files[:]} {
		b = b[copy(to, b):]
	}
	return p, true
}

// printOf reads the print at the head of the data of an item's end.
func printOf(data string) (imprint, bool) {
	const head = `{"print":"`
	text, ok := strings.CutPrefix(data, head)
	if !ok {
		return imprint{}, false
	}
	text, _, _ = strings.Cut(text[:min(len(text), 2*printSize)], `"`)
	return parsePrint(text)
}

// prints makes the fingerprints of the items of a map.
type prints struct {
	m        *Map
	p        step.Place
	key      []byte
	extra    []*template.Text // files:
	workDirs []*template.Text // of steps
	steps    sum
	values   sum
	named    map[string]string // tags of the values that the steps name, by name
	byItem   []string          // variables of the item that they name, beside its data
	unsure   string            // why no item can be known to be unchanged
	compared map[string]sum    // of files, while nothing of the map runs yet
}

// newPrints reads what is the same for all items of a map.
func (m *Map) newPrints(ctx context.Context) (*prints, error) {
	key, err := homeKey(filepath.Dir(filepath.Dir(m.Journal.Dir())))
	if err != nil {
		return nil, fmt.Errorf("map.skip_unchanged: the key of the fingerprints: %w", err)
	}
	s := &prints{m: m, p: m.Place, key: key, extra: m.File.Map.Unchanged.Files}
	s.readSteps(ctx)
	s.readValues(ctx)
	return s, nil
}

// homeKey is the key of all fingerprints of a home, which is made where there is
// none. Who has no key cannot find out a secret by trying.
func homeKey(home string) ([]byte, error) {
	name := filepath.Join(home, "fingerprints.key")
	for {
		key, err := os.ReadFile(name)
		if err == nil && len(key) == sha256.Size {
			return key, nil
		}
		if err == nil {
			return nil, fmt.Errorf("%s has %d bytes where a key has %d: remove it, and all items run once more", name, len(key), sha256.Size)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // it fails never
		err = files.Create(name, 0o600, files.Synced(key))
		if errors.Is(err, fs.ErrExist) {
			err = nil // another process has made it
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *prints) hash() hash.Hash { return hmac.New(sha256.New, s.key) }

func sumOf(h hash.Hash) sum { return sum(h.Sum(nil)) }

// of digests some parts, each with its length.
func (s *prints) of(parts ...string) sum {
	h := s.hash()
	for _, p := range parts {
		put(h, p)
	}
	return sumOf(h)
}

func put(h hash.Hash, part string) {
	fmt.Fprintf(h, "%d:", len(part))
	_, _ = io.WriteString(h, part)
}

// readSteps digests the steps of the template, and the pipelines that they run.
func (s *prints) readSteps(ctx context.Context) {
	h := s.hash()
	steps := s.m.File.Map.Template.Steps
	workflow.WriteMeaning(h, s.m.File, steps)
	s.workDirs = workflow.WorkingDirs(steps)
	put(h, fmt.Sprint(s.m.SkipPermissions))
	for _, t := range workflow.PipelineFiles(steps) {
		if !t.IsLiteral() {
			s.unsure = fmt.Sprintf("the pipeline %s has a variable in its name", t)
			continue
		}
		f, err := s.m.Pipeline(ctx, s.p, &workflow.Pipeline{File: t})
		if err != nil {
			s.unsure = fmt.Sprintf("the pipeline %s cannot be read", t)
			continue
		}
		put(h, string(f.Source))
		for _, name := range slices.Sorted(maps.Keys(f.Others)) {
			put(h, string(f.Others[name]))
		}
	}
	s.steps = sumOf(h)
}

// ofItem are the variables of an item beside its data.
var ofItem = []string{"item_id", "item_index", "item_total"}

// passing are variables that belong to one attempt, one round or one run: what is
// made again each time says nothing of a change.
var passing = []string{"item", "item_json", "attempt", "error", "foreach", "index", "total", "step", "git", "map", "merge", "uuid", "ITERATION", "workflow",
	"PROJECT_ROOT", "WORKTREE", "prompt"}

// ofSteps are the outputs of the step before, which count where the first step
// reads them.
var ofSteps = []string{"shell", "claude", "last", "test", "http", "pipeline", "write_file", "goal_seek", "validation"}

// readValues digests the values that the steps name, and the environment that the
// workflow gives them.
func (s *prints) readValues(ctx context.Context) {
	s.named = map[string]string{}
	all := map[string]string{}
	note := func(name, v string) {
		all[name] = v
		s.named[s.m.Env.Mask().String(name)] = s.of("value", name, v).tag().String()
	}
	own := s.m.Env.Own()
	for name, v := range own {
		note("env."+name, v)
	}
	view := s.m.Executor.View(ctx, &s.p)
	find := template.Resolver(view)
	steps := s.m.File.Map.Template.Steps
	first := workflow.Reads(s.m.File, steps[:min(1, len(steps))])
	for _, n := range workflow.Reads(s.m.File, steps) {
		if n.Path == nil {
			if name, ok := strings.CutPrefix(n.Name, "env:"); ok {
				s.inherited(name, own, note)
			}
			continue
		}
		head := n.Path[0].Name
		switch {
		case slices.Contains(ofItem, head):
			s.byItem = append(s.byItem, head)
			continue
		case slices.Contains(passing, head), has(own, head),
			slices.Contains(ofSteps, head) && !slices.ContainsFunc(first, func(f workflow.Named) bool { return f.Name == n.Name }):
			continue
		case head == "env" && len(n.Path) > 1:
			s.inherited(n.Path[1].Name, own, note)
			continue
		}
		if v, ok := find.Lookup(n.Path); ok {
			note(n.Name, value.JSON(v))
		} else {
			s.inherited(head, own, note)
		}
	}
	for _, f := range workflow.Called(steps) {
		values, err := s.m.Env.FileValues(ctx, f)
		if err != nil {
			s.unsure = fmt.Sprintf("the env_files of the workflow %s cannot be read", filepath.Base(f.Path))
		}
		for name, v := range values {
			note("env."+name+" of "+filepath.Base(f.Path), v)
		}
	}
	h := s.hash()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		put(h, name)
		put(h, all[name])
	}
	s.values = sumOf(h)
}

// inherited notes a variable of the environment that is named and is none of the
// workflow's own.
func (s *prints) inherited(name string, own map[string]string, note func(name, v string)) {
	if v, ok := s.m.Env.Get(name); ok && !has(own, name) && !strings.HasPrefix(name, "BIDE_") && !strings.HasPrefix(name, "PRODIGY_") {
		note("env."+name, v)
	}
}

func has(m map[string]string, name string) bool { _, ok := m[name]; return ok }

// id digests an item's data as it is recorded.
func (s *prints) id(stored []byte) sum { return s.of("item", string(stored)) }

// item makes the print of an item: as it is recorded, and with its secrets. p is
// where its steps run.
func (s *prints) item(ctx context.Context, p step.Place, stored []byte, it event.Item) imprint {
	out := imprint{id: s.id(stored), steps: s.steps.tag(), values: s.values.tag(), unsure: s.unsure}
	if out.unsure != "" {
		return out
	}
	sc, err := p.Scope.ForItem(it, s.m.Total, 0)
	if err != nil {
		out.unsure = err.Error()
		return out
	}
	p.Scope = sc
	c := contents{s: s, h: s.hash(), inputs: map[string]string{}}
	if err := c.all(ctx, p, sc.Get("item")); err != nil {
		out.unsure = s.m.Env.Mask().String(err.Error())
		return out
	}
	content := sumOf(c.h)
	out.files, out.inputs = content.tag(), c.inputs
	parts := []string{"whole", string(it.Data), string(s.steps[:]), string(s.values[:]), string(content[:])}
	for _, name := range s.byItem {
		parts = append(parts, value.JSON(sc.Get(name)))
	}
	out.whole = s.of(parts...)
	return out
}

// contents digests the files of an item.
type contents struct {
	s      *prints
	h      hash.Hash
	inputs map[string]string
	n      int
	bytes  int64
	seen   map[string]bool
}

// all digests the files that an item names and those of files:.
func (c *contents) all(ctx context.Context, p step.Place, item any) error {
	c.seen = map[string]bool{}
	dirs, err := c.dirs(p)
	if err != nil {
		return err
	}
	texts := 0
	if err := eachText(item, func(name string) error {
		if texts++; texts > maxPrintTexts {
			return fmt.Errorf("it has more than %d texts that may be names of files", maxPrintTexts)
		}
		if name == "" || len(name) > maxPrintName || strings.ContainsAny(name, "\x00\n") {
			return nil
		}
		for _, dir := range dirs {
			if err := c.file(ctx, files.Name{Dir: dir, Path: name, ByData: true}, false); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, t := range c.s.extra {
		if err := c.pattern(ctx, p, t); err != nil {
			return err
		}
	}
	return nil
}

// dirs are the directories in which the steps of an item work: what it names may be
// in any of them.
func (c *contents) dirs(p step.Place) ([]string, error) {
	dirs := []string{p.Dir}
	for _, t := range c.s.workDirs {
		if !isKnown(p, t) {
			return nil, fmt.Errorf("the directory %s of a step is known only while it runs", t)
		}
		name, err := t.Expand(p.Scope)
		if err != nil {
			return nil, err
		}
		if dir := (files.Name{Dir: p.Dir, Path: name}).Full(); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// isKnown reports whether all that a text names is known before the steps run.
func isKnown(p step.Place, t *template.Text) bool {
	for _, r := range t.Refs() {
		_, ok := p.Scope.Lookup(r.Name)
		if !ok && r.Path != nil {
			_, ok = template.Resolver(p.Scope).Lookup(r.Path)
		}
		if !ok {
			return false
		}
	}
	return true
}

// pattern digests the files that an entry of files: stands for.
func (c *contents) pattern(ctx context.Context, p step.Place, t *template.Text) error {
	name, err := t.Expand(p.Scope)
	if err != nil {
		return err
	}
	file := p.File(t, name)
	put(c.h, name)
	if !strings.ContainsAny(name, "*?[") {
		return c.file(ctx, file, true)
	}
	found, err := file.Find()
	if err != nil {
		return err
	}
	for _, path := range found {
		one := file
		if one.Path, err = filepath.Rel(file.Dir, path); err != nil || filepath.IsAbs(file.Path) {
			one.Path = path
		}
		if info, err := one.Stat(); err == nil && info.IsDir() {
			continue // a pattern names what is in a directory beside others
		}
		if err := c.file(ctx, one, true); err != nil {
			return err
		}
	}
	return nil
}

// file digests a file. Where nobody says that it has to count, a text that is the
// name of none below the directory is a text.
func (c *contents) file(ctx context.Context, n files.Name, counts bool) error {
	if c.seen[n.Full()] {
		return nil
	}
	info, err := n.Stat()
	switch {
	case errors.As(err, new(*files.OutsideError)) && !counts, !counts && notThere(err), err == nil && !info.Mode().IsRegular() && !counts:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		put(c.h, n.Path)
		put(c.h, "missing")
		c.show(n.Path, tag{})
		return nil
	case err != nil:
		return fmt.Errorf("%s cannot be compared: %w", n.Path, bare(err))
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", n.Path)
	}
	c.seen[n.Full()] = true
	if c.n++; c.n > maxPrintFiles {
		return fmt.Errorf("it has more than %d files", maxPrintFiles)
	}
	if c.bytes += info.Size(); c.bytes > maxPrintBytes {
		return fmt.Errorf("with %s its files have more than %d MiB", n.Path, maxPrintBytes>>20)
	}
	content, err := c.s.content(ctx, n)
	if err != nil {
		return fmt.Errorf("%s cannot be compared: %w", n.Path, bare(err))
	}
	put(c.h, n.Path)
	put(c.h, string(content[:]))
	c.show(n.Path, content.tag())
	return nil
}

// show keeps a file's tag under its name.
func (c *contents) show(name string, t tag) {
	if len(c.inputs) < shownInputs {
		c.inputs[c.s.m.Env.Mask().String(name)] = t.String()
	}
}

// notThere reports whether an error says that a text is the name of no file.
func notThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EINVAL)
}

// bare is an error without the path that a sentence has named already.
func bare(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// maxCompared bounds the files whose digests are kept while items are compared.
const maxCompared = 10_000

// content digests what is in a file.
func (s *prints) content(ctx context.Context, n files.Name) (sum, error) {
	if known, ok := s.compared[n.Full()]; ok {
		return known, nil
	}
	f, err := n.Open(ctx)
	if err != nil {
		return sum{}, err
	}
	h := s.hash()
	size, err := io.Copy(h, io.LimitReader(f, maxPrintBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return sum{}, err
	}
	if size > maxPrintBytes {
		return sum{}, errors.New("it grows while it is read")
	}
	d := sumOf(h)
	if s.compared != nil && len(s.compared) < maxCompared {
		s.compared[n.Full()] = d
	}
	return d, nil
}

// eachText gives all texts in a value, in an order that does not change.
func eachText(v any, each func(string) error) error {
	switch v := v.(type) {
	case string:
		return each(v)
	case []any:
		for _, e := range v {
			if err := eachText(e, each); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if err := eachText(v[k], each); err != nil {
				return err
			}
		}
	}
	return nil
}
