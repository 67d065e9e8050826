package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	common "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// KeyFile is the variable that names the file with the key for encrypting the data that
// goes through the server: 64 hexadecimal digits. All workers, and all commands that start
// runs, need the same key.
const KeyFile = "BIDE_TEMPORAL_KEY_FILE"

// sealed is the encoding of encrypted payloads: AES-256-GCM, the nonce before the text.
const sealed = "binary/bide-aes-256-gcm"

// crypt encrypts and decrypts payloads. Without a key, it only reports that a payload is
// encrypted.
type crypt struct{ aead cipher.AEAD }

// newCrypt reads a key from a file; with path "" there is no key.
func newCrypt(path string) (crypt, error) {
	if path == "" {
		return crypt{}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return crypt{}, fmt.Errorf("%s: %w", KeyFile, err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return crypt{}, fmt.Errorf("%s: %s holds no key, which is 64 hexadecimal digits: `openssl rand -hex 32` makes one", KeyFile, path)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return crypt{}, err
	}
	aead, err := cipher.NewGCM(block)
	return crypt{aead}, err
}

// Encode encrypts.
func (c crypt) Encode(list []*common.Payload) ([]*common.Payload, error) {
	if c.aead == nil {
		return list, nil
	}
	out := make([]*common.Payload, len(list))
	for i, p := range list {
		text, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		nonce := make([]byte, c.aead.NonceSize(), c.aead.NonceSize()+len(text)+c.aead.Overhead())
		rand.Read(nonce) // it never fails
		out[i] = &common.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(sealed)}, Data: c.aead.Seal(nonce, nonce, text, nil)}
	}
	return out, nil
}

var errSealed = errors.New("what came through the server is encrypted, with another key than that of " + KeyFile + " here, or there is none: all workers and all who start runs need the same")

var errPlain = errors.New("what came through the server is not encrypted, but " + KeyFile + " names a key here, and a process with a key reads only what was encrypted with it. Give all workers, and all who start runs, the same key")

// Decode decrypts. With a key, it rejects everything that was not encrypted with this key:
// anyone who reaches the server could have written that.
func (c crypt) Decode(list []*common.Payload) ([]*common.Payload, error) {
	out := make([]*common.Payload, len(list))
	for i, p := range list {
		out[i] = p
		if string(p.GetMetadata()[converter.MetadataEncoding]) != sealed {
			if c.aead != nil {
				return nil, errPlain
			}
			continue
		}
		if c.aead == nil || len(p.Data) < c.aead.NonceSize() {
			return nil, errSealed
		}
		n := c.aead.NonceSize()
		text, err := c.aead.Open(nil, p.Data[:n], p.Data[n:], nil)
		if err != nil {
			return nil, errSealed
		}
		out[i] = &common.Payload{}
		if err := proto.Unmarshal(text, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
