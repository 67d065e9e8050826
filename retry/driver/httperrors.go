package driver

import (
	"errors"
	"io"
	"net/textproto"
	"net/url"
	"reflect"
	"strings"
)

// What net/http says of a connection that broke has a type that is exported only
// in part. This file knows the rest: by the type's name, and where there is no type,
// by the whole text, which is a constant of net/http.

// ofHTTP reports whether an error, by itself, says that a request of package net/http
// or golang.org/x/net/http2 lost its connection, or that its answer broke off.
func ofHTTP(err error) bool {
	if e, ok := err.(*url.Error); ok {
		return Visit(e.Err, brokeOff)
	}
	t := reflect.TypeOf(err)
	if t == plainError {
		return lostConnection[err.Error()]
	}
	return ofHTTP2(t, reflect.ValueOf(err))
}

// brokeOff reports whether an error within a *url.Error says that the answer ended
// before it was whole: no headers, or half of them.
func brokeOff(err error) bool {
	switch err.(type) {
	case textproto.ProtocolError:
		return true
	case interface{ Unwrap() error }:
		return strings.HasPrefix(message(err), "net/http: HTTP/1.x transport connection broken: ")
	}
	if err == io.EOF {
		return true
	}
	return reflect.TypeOf(err) == plainError &&
		(strings.HasPrefix(err.Error(), "malformed HTTP ") || strings.HasPrefix(err.Error(), "http2: Transport received GOAWAY from server"))
}

// plainError is the type of what errors.New gives.
var plainError = reflect.TypeOf(errors.New(""))

// lostConnection are the errors of net/http that have no type.
var lostConnection = map[string]bool{
	"http: server closed idle connection":                         true,
	"http: unexpected EOF reading trailer":                        true,
	"http: suspiciously long trailer after chunked body":          true, // it broke off within
	"http2: client connection lost":                               true,
	"http2: client conn is closed":                                true,
	"http2: client conn not usable":                               true,
	"http2: client conn could not be established":                 true,
	"http2: Transport received Server's graceful shutdown GOAWAY": true,
}

// The codes of HTTP/2 by which a server says how it wants to be asked: another request
// like this one is refused alike.
const (
	inadequateSecurity = 0xc
	http11Required     = 0xd
)

// ofHTTP2 reports whether an error is a stream or a connection of HTTP/2 that ended
// before the answer.
func ofHTTP2(t reflect.Type, v reflect.Value) bool {
	if path := t.PkgPath(); path != "net/http" && path != "net/http/internal/http2" && path != "golang.org/x/net/http2" {
		return false
	}
	var code reflect.Value
	switch name := strings.TrimPrefix(t.Name(), "http2"); {
	case name == "ConnectionError":
		code = v
	case t.Kind() != reflect.Struct:
		return false
	case name == "StreamError", name == "connError":
		code = v.FieldByName("Code")
	case name == "GoAwayError":
		code = v.FieldByName("ErrCode")
	case name == "goAwayFlowError":
		return true
	}
	return code.IsValid() && code.CanUint() && code.Uint() != inadequateSecurity && code.Uint() != http11Required
}
