package cluster

import "io"

// Objects is what a store can do: four verbs that a directory, a bucket and a database all
// have. A name is a path with slashes. An object exists whole or not at all, and it never
// changes. Create decides all that machines must agree on: if several create a name, one
// succeeds. A call has its own time limit, also if nothing answers. Several goroutines may
// use it at once.
type Objects interface {
	// Create makes an object, durable before it returns. If the name is taken, it gives
	// fs.ErrExist and changes nothing. write is called at most once. If it fails, there is
	// no object, and Create gives its error.
	Create(name string, write func(io.Writer) error) error
	// Read reads an object from an offset on. If the object is shorter, there is nothing to
	// read; if there is no object, Read gives fs.ErrNotExist.
	Read(name string, from int64) (io.ReadCloser, error)
	// List gives the names directly in a folder, in order: those of objects, and those of
	// folders that have objects. A folder without objects has no names. A store that knows
	// that there is no such folder may give fs.ErrNotExist.
	List(folder string) ([]string, error)
	// Remove removes everything below a place. It may be repeated.
	Remove(place string) error
}

// Directory is a store that is a directory, which all machines reach under one path. Its
// logs are files that grow; the logs of any other store are parts (parts.go).
type Directory interface {
	Objects
	// Found makes a place with its folders and its first object, all of it or nothing.
	// Objects are created only in such folders: if the place is removed, nothing is created
	// in it.
	Found(place string, folders []string, name string, text []byte) error
	// Begin makes a log to which only its writer appends; fs.ErrExist if the name is taken.
	// Read reads it like an object.
	Begin(name string) (Log, error)
	// Path gives the path of a name, which is the same on each machine.
	Path(name string) string
}

// Log is a log for its writer. What was written is durable once Sync has returned.
type Log interface {
	io.WriteCloser
	Sync() error
}

// BeginLog makes a log, which must not exist: if it does, BeginLog or the first Sync gives
// fs.ErrExist.
func BeginLog(o Objects, name string) (Log, error) {
	if d, ok := o.(Directory); ok {
		return d.Begin(name)
	}
	return &partLog{o: o, name: name}, nil
}

// ReadLog reads a log from an offset on; fs.ErrNotExist if there is none.
func ReadLog(o Objects, name string, from int64) (io.ReadCloser, error) {
	if d, ok := o.(Directory); ok {
		return d.Read(name, from)
	}
	return readParts(o, name, from)
}

// has reports whether a store has an object, as far as can be seen.
func has(o Objects, name string) bool {
	f, err := o.Read(name, 0)
	return err == nil && f.Close() == nil
}
