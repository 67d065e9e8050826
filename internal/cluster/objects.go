package cluster

import "io"

// objects is what a store can do. A name is a path with slashes. An object is there
// whole or not at all, and it never changes; only a log grows. All that machines must
// agree on is decided by create: of several who create a name, one succeeds.
type objects interface {
	// found makes a place with its folders and its first object, all of it or nothing.
	// Objects are created in such folders only: where the place is away, nothing is.
	found(place string, folders []string, name string, text []byte) error
	// create makes an object, on the disk before it returns. Where one has the name, it
	// gives fs.ErrExist and changes nothing.
	create(name string, write func(io.Writer) error) error
	// read reads an object or a log from an offset on; fs.ErrNotExist where there is none.
	read(name string, from int64) (io.ReadCloser, error)
	// list gives the names in a folder, without that of the folder, in no order that
	// matters.
	list(folder string) ([]string, error)
	// begin makes a log, which only its writer appends to; fs.ErrExist where one has the
	// name.
	begin(name string) (growing, error)
	// remove removes a place. Nobody sees a part of it meanwhile.
	remove(place string) error
	// path is where a place is on each machine, for the files that steps make.
	path(place string) string
}

// growing is a log for its writer.
type growing interface {
	io.WriteCloser
	Sync() error
}
