package proof

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/bide-dev/bide/internal/event"
	"github.com/bide-dev/bide/internal/journal"
	"github.com/bide-dev/bide/internal/mapper"
	"github.com/bide-dev/bide/internal/worktree"
)

// Proof is what the items of a run have shown.
type Proof struct {
	Run   string `json:"run"`
	Items []Item `json:"items"`
	// Verified are the merges that the merge queue has verified, in their order; none
	// without one.
	Verified []Merge `json:"verified,omitempty"`
	// Landed are the commits by which the work of the run came into the user's branch.
	Landed []string `json:"-"`
}

// Item is an item that has ended.
type Item struct {
	ID      string `json:"item"`
	Label   string `json:"label,omitempty"`
	Index   int    `json:"index"` // from 0
	Status  string `json:"status"`
	Class   string `json:"class,omitempty"`
	Message string `json:"message,omitempty"`
	// Evidence is nil of an item that was asked for none, or did not come to it.
	Evidence *mapper.Evidence `json:"evidence,omitempty"`
	Sum      string           `json:"evidence_sha256,omitempty"`
	Tip      string           `json:"tip,omitempty"`
	Merge    string           `json:"merge,omitempty"`
	Branch   string           `json:"branch,omitempty"` // where work is that is not merged
}

// Merge is a merge that was verified.
type Merge struct {
	mapper.Verified
	Status     string `json:"status"`
	Message    string `json:"message,omitempty"`
	DurationMS int64  `json:"duration_ms"`
}

// Totals are how many items have shown what they were asked for, and how their merges went.
type Totals struct {
	Passed   int   `json:"evidence_passed"`
	Failed   int   `json:"evidence_failed"`
	Waiting  int   `json:"waiting"` // to be merged
	Merged   int   `json:"merged"`
	Refused  int   `json:"refused"`
	Verifies int   `json:"verifies"`
	Red      int   `json:"red"` // of them
	TookMS   int64 `json:"took_ms"`
}

// Totals counts. Who waits to be merged is not known here.
func (p *Proof) Totals() (t Totals) {
	for _, it := range p.Items {
		switch {
		case it.Class == mapper.ClassEvidence:
			t.Failed++
		case it.Evidence != nil:
			t.Passed++
		}
		switch {
		case it.Merge != "" || it.Status == event.Succeeded && it.Tip != "": // its run was killed before it could say so
			t.Merged++
		case it.Class == mapper.ClassMergeCheck || it.Class == "conflict":
			t.Refused++
		}
	}
	for _, m := range p.Verified {
		t.Verifies += max(m.Runs, 1)
		if t.TookMS += m.DurationMS; m.Status != event.Succeeded {
			t.Red++
		}
	}
	return t
}

// Read takes the proof of a run out of its journal.
func Read(ctx context.Context, r *journal.Reader) (*Proof, error) {
	p := &Proof{Run: r.Run(), Items: []Item{}}
	for res, err := range r.Results(ctx) {
		if err != nil {
			return nil, err
		}
		it := Item{ID: res.ID, Label: res.Label, Index: event.Number(res.Index), Status: res.Status, Class: res.Class, Message: res.Message}
		var d mapper.Result
		if len(res.Data) > 0 {
			if err := json.Unmarshal(res.Data, &d); err != nil {
				return nil, fmt.Errorf("the recorded result of item %s: %w", res.ID, err)
			}
		}
		if it.Evidence, it.Tip, it.Merge, it.Branch = d.Evidence, d.Tip, d.Merge, d.Branch; it.Evidence != nil {
			it.Sum = it.Evidence.Sum()
		}
		p.Items = append(p.Items, it)
	}
	for e, err := range r.Events(ctx, 1, journal.EventFilter{Types: []event.Type{event.MergeVerified, event.Note}}) {
		if err != nil {
			return nil, err
		}
		if e.Type == event.Note {
			var d event.LandedMerge
			if (e.Class == event.Landed || e.Class == event.Merged) && json.Unmarshal(e.Data, &d) == nil && d.Commit != "" {
				p.Landed = append(p.Landed, d.Commit)
			}
			continue
		}
		m := Merge{Status: e.Status, Message: e.Message, DurationMS: e.DurationMS}
		if err := json.Unmarshal(e.Data, &m.Verified); err != nil {
			return nil, fmt.Errorf("event %d: %w", e.Seq, err)
		}
		p.Verified = append(p.Verified, m)
	}
	return p, nil
}

// Problem is something that is not as the record says. Item is "" where it is of no one
// item.
type Problem struct {
	Item    string `json:"item,omitempty"`
	Message string `json:"message"`
}

// verifier holds a proof against a repository.
type verifier struct {
	ctx      context.Context
	repo     *worktree.Repo
	p        *Proof
	into     []string
	merges   map[string]worktree.ItemMerge // those that are in the history, by commit
	byItem   map[string]worktree.ItemMerge // the newest of each item
	problems []Problem
	green    map[string]bool // trees that were verified
	landing  map[string]bool // commits by which the user's branch got work, that are looked at
}

// Verify computes the proof of a run anew, and gives what is not as it says. Where the
// merge of an item is not on record, since its run was killed then, it is found in the
// history and filled in.
func Verify(ctx context.Context, repo *worktree.Repo, p *Proof) ([]Problem, error) {
	v := &verifier{ctx: ctx, repo: repo, p: p, merges: map[string]worktree.ItemMerge{}, byItem: map[string]worktree.ItemMerge{}, green: map[string]bool{}, landing: map[string]bool{}}
	for _, m := range p.Verified {
		if m.Status == event.Succeeded {
			v.green[m.Tree] = true
		}
	}
	var err error
	if v.into, err = repo.Into(ctx, p.Run); err != nil {
		return nil, err
	}
	for _, in := range v.into {
		list, err := repo.ItemMerges(ctx, p.Run, in)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			v.merges[m.Commit] = m
			if _, known := v.byItem[m.Item]; !known {
				v.byItem[m.Item] = m
			}
		}
	}
	for i := range p.Items {
		if err := v.item(&p.Items[i]); err != nil {
			return nil, err
		}
	}
	for _, commit := range p.Landed {
		if err := v.kept(commit); err != nil {
			return nil, err
		}
	}
	return v.problems, nil
}

// kept looks whether a commit by which work landed is in the history, and was verified.
func (v *verifier) kept(commit string) error {
	tree, err := v.repo.Tree(v.ctx, commit)
	if err != nil {
		return err
	}
	for _, in := range v.into {
		if tree == "" {
			break
		}
		if kept, err := v.repo.Contains(v.ctx, in, commit); err != nil || kept {
			if err == nil && len(v.p.Verified) > 0 && !v.green[tree] && !v.landing[commit] {
				v.problems = append(v.problems, Problem{"", fmt.Sprintf("the commit by which the work of the run landed, %.12s, has tree %.12s, which was not verified", commit, tree)})
			}
			return err
		}
	}
	v.problems = append(v.problems, Problem{"", fmt.Sprintf("the commit by which the work of the run landed, %.12s, is not in the history any more", commit)})
	return nil
}

func (v *verifier) say(it *Item, format string, args ...any) {
	v.problems = append(v.problems, Problem{it.ID, fmt.Sprintf(format, args...)})
}

func (v *verifier) item(it *Item) error {
	if it.Evidence != nil {
		if err := v.evidence(it); err != nil {
			return err
		}
	}
	if it.Status != event.Succeeded || it.Evidence == nil && len(v.p.Verified) == 0 {
		return nil
	}
	if it.Merge == "" {
		it.Merge = v.byItem[worktree.Subject(it.ID)].Commit
	}
	if it.Merge == "" {
		if it.Tip != "" {
			v.say(it, "its work, %.12s, is in no merge", it.Tip)
		}
		return nil // it had nothing to merge
	}
	return v.merge(it)
}

// evidence holds what an item has shown against the commit and what the checks printed.
func (v *verifier) evidence(it *Item) error {
	e := it.Evidence
	tree, err := v.repo.Tree(v.ctx, e.Commit)
	switch {
	case err != nil:
		return err
	case tree == "" && (it.Merge != "" || it.Branch != ""):
		v.say(it, "the commit that was checked, %.12s, is not in the repository", e.Commit)
	case tree != "" && tree != e.Tree:
		v.say(it, "the commit that was checked, %.12s, has tree %.12s; %.12s is on record", e.Commit, tree, e.Tree)
	}
	for _, c := range e.Checks {
		if c.File == "" {
			continue
		}
		text, err := readFile(c.File)
		if err != nil {
			v.say(it, "what the check %q printed cannot be read: %v", c.Check, err)
			continue
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != c.Digest {
			v.say(it, "what the check %q printed is not what is in %s", c.Check, c.File)
		}
	}
	return nil
}

// readFile reads a file, and nothing that is no file: to open a pipe that somebody has put in
// its place takes until somebody writes to it.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return os.ReadFile(name)
}

// merge holds the merge of an item against the history.
func (v *verifier) merge(it *Item) error {
	m, known := v.merges[it.Merge]
	if !known {
		v.say(it, "its merge, %.12s, is not in the history, or does not say that it is of this run", it.Merge)
		return nil
	}
	if want := worktree.Subject(it.ID); m.Item != want {
		v.say(it, "its merge, %.12s, says that it is of item %s", it.Merge, m.Item)
	}
	if m.Evidence != it.Sum {
		v.say(it, "its merge, %.12s, names the evidence %s; that on record is %s", it.Merge, cmp.Or(m.Evidence, "of nobody"), cmp.Or(it.Sum, "none"))
	}
	if len(m.Parents) < 2 || it.Tip != "" && m.Parents[1] != it.Tip {
		v.say(it, "its merge, %.12s, does not merge %.12s", it.Merge, it.Tip)
	}
	if len(v.p.Verified) == 0 {
		return nil
	}
	return v.landed(it)
}

// landed looks whether the merge of an item is in one that was verified, and is in the
// history.
func (v *verifier) landed(it *Item) error {
	for _, m := range slices.Backward(v.p.Verified) {
		if m.Status != event.Succeeded || !slices.Contains(m.Items, it.ID) {
			continue
		}
		tree, err := v.repo.Tree(v.ctx, m.Commit)
		if err != nil {
			return err
		}
		if tree == "" {
			continue
		}
		if tree != m.Tree {
			v.say(it, "the merge that was verified, %.12s, has tree %.12s; %.12s is on record", m.Commit, tree, m.Tree)
			return nil
		}
		in, err := v.repo.Contains(v.ctx, m.Commit, it.Merge)
		if err != nil {
			return err
		}
		for _, name := range v.into {
			if !in {
				break
			}
			landed, err := v.repo.Contains(v.ctx, name, m.Commit)
			if err != nil {
				return err
			}
			if landed {
				return v.reached(it)
			}
		}
	}
	v.say(it, "no merge that was verified and is in the history has its merge, %.12s", it.Merge)
	return nil
}

// reached looks whether the tree that the user's branch had with the merge of an item, when
// it got that, is one that was verified.
func (v *verifier) reached(it *Item) error {
	at, err := v.repo.Landing(v.ctx, v.p.Run, it.Merge)
	if err != nil || at.Commit == "" || v.landing[at.Commit] {
		return err
	}
	v.landing[at.Commit] = true
	if !v.green[at.Tree] {
		v.say(it, "the commit by which it landed, %.12s, has tree %.12s, which was not verified", at.Commit, at.Tree)
	}
	return nil
}

// Find gives the items that a name means: an id, or a label.
func (p *Proof) Find(name string) (*Item, error) {
	for i := range p.Items {
		if it := &p.Items[i]; it.ID == name {
			return it, nil
		}
	}
	var found *Item
	for i := range p.Items {
		if it := &p.Items[i]; it.Label == name {
			if found != nil {
				return nil, fmt.Errorf("several items are called %s: take the id of one", name)
			}
			found = it
		}
	}
	if found == nil {
		return nil, errors.New("no item that has ended is called " + name)
	}
	return found, nil
}
