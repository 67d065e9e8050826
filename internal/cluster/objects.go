package cluster

import "io"

// Objects is what a store can do: four verbs that a directory, a bucket and a database
// all have. A name is a path with slashes. An object is there whole or not at all, and
// it never changes. All that machines must agree on is decided by Create: of several
// who create a name, one succeeds. A call ends within a time of its own, also where
// nothing answers. It is safe for concurrent use.
type Objects interface {
	// Create makes an object, durable before it returns. Where one has the name, it
	// gives fs.ErrExist and changes nothing. write is called at most once; where it
	// fails, there is no object, and its error is given.
	Create(name string, write func(io.Writer) error) error
	// Read reads an object from an offset on: nothing where it is shorter, and
	// fs.ErrNotExist where there is none.
	Read(name string, from int64) (io.ReadCloser, error)
	// List gives the names directly below a folder in their order: those of objects, and
	// those of folders with objects in them. A folder without any has none; where the
	// store knows that there is no such folder, it may give fs.ErrNotExist.
	List(folder string) ([]string, error)
	// Remove removes all below a place. It may be done again.
	Remove(place string) error
}

// Directory is a store that is a directory, which all machines reach under one path. Its
// logs are files that grow; those of any other store are parts (parts.go).
type Directory interface {
	Objects
	// Found makes a place with its folders and its first object, all of it or nothing.
	// Objects are created in such folders only: where the place is away, nothing is.
	Found(place string, folders []string, name string, text []byte) error
	// Begin makes a log, which only its writer appends to; fs.ErrExist where one has the
	// name. Read reads it as an object.
	Begin(name string) (Log, error)
	// Path is where a name is on each machine.
	Path(name string) string
}

// Log is a log for its writer. What was written is durable when Sync has returned.
type Log interface {
	io.WriteCloser
	Sync() error
}

// BeginLog makes a log, which must not be there: where there is one, BeginLog or the
// first Sync gives fs.ErrExist.
func BeginLog(o Objects, name string) (Log, error) {
	if d, ok := o.(Directory); ok {
		return d.Begin(name)
	}
	return &partLog{o: o, name: name}, nil
}

// ReadLog reads a log from an offset on; fs.ErrNotExist where there is none.
func ReadLog(o Objects, name string, from int64) (io.ReadCloser, error) {
	if d, ok := o.(Directory); ok {
		return d.Read(name, from)
	}
	return readParts(o, name, from)
}

// has reports whether a store has an object, as far as that can be seen.
func has(o Objects, name string) bool {
	f, err := o.Read(name, 0)
	return err == nil && f.Close() == nil
}
