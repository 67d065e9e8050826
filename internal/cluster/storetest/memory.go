package storetest

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Memory is a store in memory.
type Memory struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (m *Memory) Create(name string, write func(io.Writer) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.files[name]; ok {
		return &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if m.files == nil {
		m.files = map[string][]byte{}
	}
	m.files[name] = b.Bytes()
	return nil
}

func (m *Memory) Read(name string, from int64) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok := m.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(bytes.NewReader(text[min(from, int64(len(text))):])), nil
}

func (m *Memory) List(folder string) (names []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.files {
		if name, ok := strings.CutPrefix(name, folder+"/"); ok {
			name, _, _ = strings.Cut(name, "/")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (m *Memory) Remove(place string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.files, func(name string, _ []byte) bool { return strings.HasPrefix(name, place+"/") })
	return nil
}

// Files gives what a run has, by name.
func (m *Memory) Files(run string) map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	files := map[string][]byte{}
	for name, text := range m.files {
		if name, ok := strings.CutPrefix(name, "runs/"+run+"/"); ok {
			files[name] = text
		}
	}
	return files
}
