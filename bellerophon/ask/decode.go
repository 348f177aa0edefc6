package ask

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// mostOfAnswer bounds one answer. A tree of 20,000 objects has a tenth of it.
const mostOfAnswer = 64 << 20

// errAnswer is the error of an answer that ends or cannot be read.
var errAnswer = errors.New("the operator's answer")

var errTooLong = fmt.Errorf("more than %d MiB", mostOfAnswer>>20)

// body is what a server sends. came is called when something has come.
type body struct {
	io.Reader
	came func()
	read int // since the last answer
}

func (b *body) Read(into []byte) (n int, err error) {
	if n, err = b.Reader.Read(into); n > 0 {
		b.came()
	}
	if b.read += n; b.read > mostOfAnswer {
		return n, errTooLong
	}
	return n, err
}

// decode calls each with every answer of a body. It returns an errAnswer if the body has none, or nonsense.
func decode[T any](of *body, each func(T) error) error {
	decoder := json.NewDecoder(of)
	for answers := 0; ; answers++ {
		var answer T
		of.read = 0
		err := decoder.Decode(&answer)
		var isType *json.UnmarshalTypeError
		var isSyntax *json.SyntaxError
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && answers > 0:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w is empty; is it the metrics server of an operator?", errAnswer)
		case errors.As(err, &isType) || errors.As(err, &isSyntax) || errors.Is(err, errTooLong):
			return fmt.Errorf("%w is nonsense (%w); is it the metrics server of an operator?", errAnswer, err)
		default:
			return fmt.Errorf("%w ended: %w", errAnswer, err)
		}
		if err := each(answer); err != nil {
			return err
		}
	}
}
