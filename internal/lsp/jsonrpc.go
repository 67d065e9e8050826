package lsp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxMessage is the largest message that is read, in bytes.
const maxMessage = 64 << 20

// The error codes of JSON-RPC 2.0 and of the language server protocol.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeNotInitialized = -32002
	codeInternal       = -32603
)

// message is a request, a notification or an answer.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"` // absent in a notification
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// rpcError is the error of an answer.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// conn reads and writes messages with their Content-Length headers.
type conn struct {
	in  *bufio.Reader
	out io.Writer
}

// read gives the body of the next message; io.EOF if the input ends between
// two messages.
func (c *conn) read() ([]byte, error) {
	length := -1
	for first := true; ; first = false {
		line, err := c.in.ReadString('\n')
		if err != nil {
			if first && line == "" && errors.Is(err, io.EOF) {
				return nil, io.EOF
			}
			return nil, fmt.Errorf("reading a header: %w", noEOF(err))
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("reading a header: %.60q has no colon", line)
		}
		if strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			length, err = strconv.Atoi(strings.TrimSpace(value))
			if err != nil || length < 0 || length > maxMessage {
				return nil, fmt.Errorf("reading a header: Content-Length is %.60q, not a number up to %d", value, maxMessage)
			}
		}
	}
	if length < 0 {
		return nil, errors.New("reading a header: there is no Content-Length")
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return nil, fmt.Errorf("reading a message of %d bytes: %w", length, noEOF(err))
	}
	return body, nil
}

// noEOF makes an end of the input in the middle of something an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (c *conn) write(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing a message: %w", err)
	}
	if _, err := fmt.Fprintf(c.out, "Content-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		return fmt.Errorf("writing a message: %w", err)
	}
	return nil
}

// answer writes the result of a request, or its error.
func (c *conn) answer(id json.RawMessage, result any, failure *rpcError) error {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	if failure != nil {
		return c.write(struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Error   *rpcError       `json:"error"`
		}{"2.0", id, failure})
	}
	return c.write(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}{"2.0", id, result})
}

func (c *conn) notify(method string, params any) error {
	return c.write(struct {
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", method, params})
}
