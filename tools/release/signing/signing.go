// Package signing signs files with ECDSA on P-256 and SHA-256. The signature is in base64, as `cosign sign-blob` writes
// it, so cosign and OpenSSL verify it.
package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// Ending is what the name of a signature has in addition to the name of its file.
const Ending = ".sig"

// Sign writes the signature of a file beside it. The key is an unencrypted PEM file, as `openssl genpkey` writes it. The
// same key and the same file give the same signature.
func Sign(file, keyFile string) error {
	key, err := readKey(keyFile)
	if err != nil {
		return fmt.Errorf("read the key %s: %w; make one with `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`", keyFile, err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("sign a file: %w", err)
	}
	sum := sha256.Sum256(content)
	signature, err := key.Sign(nil, sum[:], crypto.SHA256) // Without a source of random numbers it is as RFC 6979 says.
	if err != nil {
		return fmt.Errorf("sign %s: %w", file, err)
	}
	if err := os.WriteFile(file+Ending, []byte(base64.StdEncoding.EncodeToString(signature)+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the signature: %w", err)
	}
	return nil
}

// readKey reads a key in PKCS #8 or SEC 1. Its errors never contain the key.
func readKey(name string) (*ecdsa.PrivateKey, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var block *pem.Block
	for { // SEC 1 files begin with the parameters of the curve.
		block, content = pem.Decode(content)
		if block == nil || block.Type != "EC PARAMETERS" {
			break
		}
	}
	if block == nil {
		return nil, errors.New("it has no block of PEM")
	}
	var parsed any
	switch block.Type {
	case "PRIVATE KEY":
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("it is a %q, and has to be an unencrypted private key", block.Type)
	}
	if err != nil {
		return nil, err
	}
	key, is := parsed.(*ecdsa.PrivateKey)
	if !is || key.Curve != elliptic.P256() {
		return nil, errors.New("it is no ECDSA key on the curve P-256")
	}
	return key, nil
}
