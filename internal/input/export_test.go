package input

import "io"

// UTF8 is the reader of texts.
func UTF8(r io.Reader) io.Reader { return &utf8Reader{r: r} }
