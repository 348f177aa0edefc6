package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/itchyny/gojq"
)

// jqTimeout bounds one run of a jq program, which may loop for ever.
const jqTimeout = 2 * time.Second

// errJQ replaces the errors of gojq, which quote values: an object may be a Secret.
var errJQ = errors.New("the jq program fails on this object; run it with jq to see why")

func compileJQ(program string) (*gojq.Code, error) {
	parsed, err := gojq.Parse(program)
	if err != nil {
		return nil, err
	}
	return gojq.Compile(parsed) // Without an environment and without modules: a filter reads nothing else.
}

// runJQ runs a program on a value of JSON. It returns null for no result, and an array for several.
func runJQ(ctx context.Context, code *gojq.Code, value any) (any, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, jqTimeout, fmt.Errorf("it ran for more than %v", jqTimeout))
	defer cancel()
	var results []any
	for next := code.RunWithContext(ctx, copyForJQ(value)); ; {
		result, more := next.Next()
		if !more {
			break
		}
		if err, failed := result.(error); failed {
			if halt := (*gojq.HaltError)(nil); errors.As(err, &halt) && halt.Value() == nil {
				break
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, errJQ
		}
		if results = append(results, result); len(results) > maxJQResults {
			return nil, fmt.Errorf("it has more than %d results", maxJQResults)
		}
	}
	switch len(results) {
	case 0:
		return nil, nil
	case 1:
		return results[0], nil
	}
	return results, nil
}

const maxJQResults = 10_000

// copyForJQ copies a value with the types of numbers that gojq takes. gojq may change what it is given, and
// objects of the cache are shared.
func copyForJQ(value any) any {
	switch value := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(value))
		for key, item := range value {
			copied[key] = copyForJQ(item)
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i, item := range value {
			copied[i] = copyForJQ(item)
		}
		return copied
	case int64:
		return int(value)
	}
	return value
}

// encoded encodes a result, so that two results can be compared.
func encoded(result any) (json.RawMessage, error) { return gojq.Marshal(result) }
