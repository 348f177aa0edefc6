package canary

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Values are secret values that nothing may show.
type Values struct{ forms []form }

// form is a text by which a program may show a value.
type form struct{ name, text string }

// New returns values to search for. Each must be long enough not to appear by chance.
func New(values ...[]byte) *Values {
	made := &Values{}
	for _, value := range values {
		made.add("plain", string(value))
		made.add("quoted", strings.Trim(strconv.Quote(string(value)), `"`))
		made.add("as decimal numbers", strings.Trim(fmt.Sprintf("%d", value), "[]"))
		made.add("as Go source", strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", value), "[]byte{"), "}"))
		made.add("in hexadecimal", hex.EncodeToString(value))
		made.add("in upper-case hexadecimal", fmt.Sprintf("%X", value))
		for offset := range 3 {
			made.add("in base64", encodedAt(base64.RawStdEncoding, offset, value))
			made.add("in base64 for URLs", encodedAt(base64.RawURLEncoding, offset, value))
		}
	}
	return made
}

// encodedAt returns what all base64 texts have in common that encode a value after a number of other bytes.
func encodedAt(encoding *base64.Encoding, offset int, value []byte) string {
	const bits = 6 // of a character
	encoded := encoding.EncodeToString(append(make([]byte, offset), value...))
	return encoded[(8*offset+bits-1)/bits : 8*(offset+len(value))/bits]
}

func (v *Values) add(name, text string) { v.forms = append(v.forms, form{name, text}) }

// AddKey adds a private key in PEM, whose algorithm is ECDSA: the PEM as a whole and by its lines, the key as DER,
// and its secret number.
func (v *Values) AddKey(encoded []byte) error {
	block, _ := pem.Decode(encoded)
	if block == nil {
		return errors.New("canary: the private key is not in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("canary: parse the private key: %w", err)
	}
	key, is := parsed.(*ecdsa.PrivateKey)
	if !is {
		return fmt.Errorf("canary: the private key is a %T, want one of ECDSA", parsed)
	}
	number, err := key.Bytes()
	if err != nil {
		return fmt.Errorf("canary: encode the private key: %w", err)
	}
	values := [][]byte{encoded, block.Bytes, number}
	for line := range strings.Lines(string(encoded)) {
		if line = strings.TrimSpace(line); len(line) >= 40 && !strings.HasPrefix(line, "-----") {
			values = append(values, []byte(line))
		}
	}
	v.forms = append(v.forms, New(values...).forms...)
	v.add("as a number", new(big.Int).SetBytes(number).String())
	return nil
}

// around is how many bytes of the text before and after a value are returned.
const around = 200

// In returns the form in which a text has one of the values, and the text around it. It returns an empty string
// if the text has none.
func (v *Values) In(text string) string {
	for _, each := range v.forms {
		if before, after, found := strings.Cut(text, each.text); found {
			return each.name + ": " + before[max(0, len(before)-around):] + each.text + after[:min(len(after), around)]
		}
	}
	return ""
}
