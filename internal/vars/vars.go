// Package vars holds the variables of a run: what templates and conditions
// read, and what steps set.
//
// Scopes are nested: the run, a phase, a work item, one round of a foreach. A
// name is looked for from the inside outwards; setting it sets it in the scope
// itself. What steps set is data; what the file, its environment, parameters
// and arguments give is trusted. The difference decides how a value may enter
// a shell command: see package template.
package vars

import (
	"maps"
	"slices"
	"sync"

	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// Source gives values that are made when they are asked for: date:, uuid,
// file:, cmd:. It is asked with the whole name.
type Source interface {
	Value(name string) (template.Value, bool)
	// Env gives a variable of the environment in which steps run.
	Env(name string) (template.Value, bool)
}

// Scope is a set of variables. It is safe for concurrent use. It is a
// template.Scope and a template.Filer.
type Scope struct {
	parent *Scope
	source Source

	mu    sync.RWMutex
	vars  map[string]template.Value
	item  *item             // nil: the scope is that of none; vars win over it
	late  Late              // a value that nobody has read; nil: there is none
	names []string          // the variables that have it, whatever is in vars
	files map[string]string // variable: reference to a file that holds it
	log   []string          // names in the order in which they were set, while recording
	marks int
}

// New makes the outermost scope. source may be nil.
func New(source Source) *Scope { return &Scope{source: source} }

// Child makes a scope inside s.
func (s *Scope) Child() *Scope { return &Scope{parent: s, source: s.source} }

// With makes a scope inside s that asks another source.
func (s *Scope) With(source Source) *Scope { return &Scope{parent: s, source: source} }

// Set sets a variable to data: an item, an output, a captured value.
func (s *Scope) Set(name string, v any) {
	s.SetValue(name, template.Value{V: v, Origin: template.Data})
}

// SetTrusted sets a variable to what the workflow's author or caller wrote.
func (s *Scope) SetTrusted(name string, v any) {
	s.SetValue(name, template.Value{V: v, Origin: template.Trusted})
}

// SetKept is Set of data that may have texts in it which are read when they are asked
// for.
func (s *Scope) SetKept(name string, v any) {
	s.SetValue(name, template.Value{V: v, Origin: template.Data, Kept: value.HasKept(v)})
}

// SetValue sets a variable.
func (s *Scope) SetValue(name string, v template.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeLate()
	s.set(name, v)
}

// set sets a variable. s.mu is held.
func (s *Scope) set(name string, v template.Value) {
	if s.vars == nil {
		s.vars = make(map[string]template.Value, 8)
	}
	s.vars[name] = v
	if s.marks > 0 {
		s.log = append(s.log, name)
	}
}

// Late is a value that is made when it is read.
type Late interface {
	// Value makes it. It is called at most once.
	Value() template.Value
}

// SetLate sets variables that have a value in common, which is made when one of them is
// read: nothing reads most of what steps leave. It keeps names.
func (s *Scope) SetLate(l Late, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.names {
		if !slices.Contains(names, name) {
			s.makeLate()
			break
		}
	}
	s.late, s.names = l, names
	if s.marks > 0 {
		s.makeLate()
	}
}

// makeLate makes the value that nobody has read. s.mu is held.
func (s *Scope) makeLate() {
	if s.late == nil {
		return
	}
	v := s.late.Value()
	for _, name := range s.names {
		s.set(name, v)
	}
	s.late, s.names = nil, nil
}

// SetFile says that the value of a variable is also to be had as a file, whose
// name is in the variable ref.
func (s *Scope) SetFile(name, ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value.Put(&s.files, name, ref)
}

// Lookup finds a variable by its whole name, from the inside outwards, and
// then asks the source.
func (s *Scope) Lookup(name string) (template.Value, bool) {
	if v, ok := s.Variable(name); ok || s.source == nil {
		return v, ok
	}
	return s.source.Value(name)
}

// Variable is Lookup without the source: only what was set.
func (s *Scope) Variable(name string) (template.Value, bool) {
	for at := s; at != nil; at = at.parent {
		at.mu.RLock()
		if slices.Contains(at.names, name) {
			at.mu.RUnlock()
			at.read()
			at.mu.RLock()
		}
		v, ok := at.vars[name]
		if !ok {
			v, ok = at.item.variable(name)
		}
		at.mu.RUnlock()
		if ok {
			return v, true
		}
	}
	return template.Value{}, false
}

// read makes the value that nobody has read.
func (s *Scope) read() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeLate()
}

// Env finds a variable of the environment.
func (s *Scope) Env(name string) (template.Value, bool) {
	if s.source == nil {
		return template.Value{}, false
	}
	return s.source.Env(name)
}

// FileFor gives the reference under which a large value is to be had as a file.
func (s *Scope) FileFor(name string) (string, bool) {
	for at := s; at != nil; at = at.parent {
		at.mu.RLock()
		ref, ok := at.files[name]
		at.mu.RUnlock()
		if ok {
			return ref, true
		}
	}
	return "", false
}

// Get is Lookup without the origin, with the texts that are kept elsewhere; nil where
// there is no such variable, or where a text of it cannot be read.
func (s *Scope) Get(name string) any {
	v, _ := s.Lookup(name)
	if !v.Kept {
		return v.V
	}
	read, _ := value.Read(v.V)
	return read
}

// Names lists the variables that can be seen from s, sorted.
func (s *Scope) Names() []string {
	seen := map[string]bool{}
	for at := s; at != nil; at = at.parent {
		at.mu.RLock()
		for name := range at.vars {
			seen[name] = true
		}
		for _, name := range at.names {
			seen[name] = true
		}
		for _, name := range itemNames {
			if _, ok := at.item.variable(name); ok {
				seen[name] = true
			}
		}
		at.mu.RUnlock()
	}
	return slices.Sorted(maps.Keys(seen))
}

// Mark begins to record what is set in s. Each Mark is ended by one Unmark; they may be
// nested.
func (s *Scope) Mark() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks++
	return len(s.log)
}

// Unmark ends the recording that the last Mark began.
func (s *Scope) Unmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks--; s.marks == 0 {
		s.log = s.log[:0]
	}
}

// Since gives what was set since a Mark, with its last value; nil for nothing.
func (s *Scope) Since(mark int) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out map[string]any
	for _, name := range s.log[mark:] {
		if out == nil {
			out = make(map[string]any, len(s.log)-mark)
		}
		out[name] = s.vars[name].V
	}
	return out
}

// Apply sets variables that a step set in an earlier life of the run.
func (s *Scope) Apply(set map[string]any) {
	for name, v := range set {
		s.SetKept(name, v)
	}
}
