package signing

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestASignatureFitsItsFileAndIsTheSameEachTime(t *testing.T) {
	key := generate(t, elliptic.P256())
	file := filepath.Join(t.TempDir(), "SHA256SUMS")
	write(t, file, []byte("sum  file\n"))
	var first string
	for _, keyFile := range []string{pkcs8(t, key), sec1(t, key)} {
		if err := Sign(file, keyFile); err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(file + Ending)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(written)))
		if err != nil {
			t.Fatal(err)
		}
		for content, want := range map[string]bool{"sum  file\n": true, "other sum  file\n": false} {
			if sum := sha256.Sum256([]byte(content)); ecdsa.VerifyASN1(&key.PublicKey, sum[:], signature) != want {
				t.Errorf("whether the signature fits %q is not %v", content, want)
			}
		}
		if first != "" && first != string(written) {
			t.Errorf("the signatures are %q and %q", first, written)
		}
		first = string(written)
	}
}

// docs/releasing.md has these commands.
func TestOpenSSLVerifiesASignature(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl on PATH")
	}
	folder := t.TempDir()
	run := func(line string) error {
		command := exec.CommandContext(t.Context(), "sh", "-c", line)
		command.Dir = folder
		said, err := command.CombinedOutput()
		t.Logf("%s\n%s", line, said)
		return err
	}
	for _, line := range []string{
		"openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out release.pem",
		"openssl pkey -in release.pem -pubout -out release.pub",
	} {
		if err := run(line); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(folder, "SHA256SUMS")
	write(t, file, []byte("sum  file\n"))
	if err := Sign(file, filepath.Join(folder, "release.pem")); err != nil {
		t.Fatal(err)
	}
	const verify = "base64 -d SHA256SUMS.sig >signature && openssl dgst -sha256 -verify release.pub -signature signature SHA256SUMS"
	if err := run(verify); err != nil {
		t.Error(err)
	}
	write(t, file, []byte("another sum  file\n"))
	if run(verify) == nil {
		t.Error("another file is verified, too")
	}
}

func TestAKeyThatCannotSignIsRefused(t *testing.T) {
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(other)
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text")
	write(t, text, []byte("secret of the user"))
	for name, test := range map[string]struct{ file, want string }{
		"no file":         {filepath.Join(t.TempDir(), "none"), "no such file"},
		"no PEM":          {text, "it has no block of PEM"},
		"another curve":   {pkcs8(t, generate(t, elliptic.P384())), "no ECDSA key on the curve P-256"},
		"Ed25519":         {encode(t, "PRIVATE KEY", secret), "no ECDSA key on the curve P-256"},
		"encrypted":       {encode(t, "ENCRYPTED PRIVATE KEY", secret), "has to be an unencrypted private key"},
		"only the public": {encode(t, "PUBLIC KEY", secret), "has to be an unencrypted private key"},
		"damaged":         {encode(t, "PRIVATE KEY", secret[1:]), "asn1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Sign(text, test.file)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "openssl genpkey") {
				t.Errorf("the error is %v, want %q and how to make a key", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret of the user") {
				t.Errorf("the error shows the file: %v", err)
			}
			if _, err := os.Stat(text + Ending); err == nil {
				t.Error("there is a signature")
			}
		})
	}
}

func generate(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pkcs8(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return encode(t, "PRIVATE KEY", encoded)
}

// sec1 writes a key as `openssl ecparam -genkey` does.
func sec1(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := encode(t, "EC PRIVATE KEY", encoded)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, append(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}}), content...))
	return file
}

func encode(t *testing.T, kind string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key.pem")
	write(t, file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
	return file
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
