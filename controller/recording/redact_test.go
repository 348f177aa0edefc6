package recording

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func redactor(t *testing.T) *Redactor {
	t.Helper()
	made, err := newRedactor()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestNoValueOfASecretIsInWhatIsWritten(t *testing.T) {
	hidden := redactor(t)
	const canary = "canary-of-a-secret"
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	for name, body := range map[string]string{
		"an object":       fmt.Sprintf(`{"kind":"Secret","metadata":{"name":"a"},"data":{"password":%q}}`, encoded),
		"text":            fmt.Sprintf(`{"kind":"Secret","stringData":{"password":%q}}`, canary),
		"a list":          fmt.Sprintf(`{"items":[{"data":{"password":%q}},{"stringData":{"x":%q}}]}`, encoded, canary),
		"a merge patch":   fmt.Sprintf(`{"data":{"password":%q,"other":null}}`, encoded),
		"a JSON patch":    fmt.Sprintf(`[{"op":"replace","path":"/data/password","value":%q},{"op":"add","path":"/data","value":{"x":%q}}]`, encoded, encoded),
		"what kubectl":    fmt.Sprintf(`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":%q}}}`, `{"data":{"password":"`+encoded+`"}}`),
		"a failure":       fmt.Sprintf(`{"kind":"Status","reason":"Invalid","message":"data: invalid value %s"}`, canary),
		"a token":         fmt.Sprintf(`{"kind":"TokenRequest","status":{"token":%q}}`, canary),
		"no valid base64": fmt.Sprintf(`{"data":{"password":%q}}`, canary),
	} {
		got, err := hidden.Object([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(got), canary) || strings.Contains(string(got), encoded) || !strings.Contains(string(got), "redacted:") && !strings.Contains(string(got), base64.StdEncoding.EncodeToString([]byte("redacted"))[:10]) {
			t.Errorf("%s: %s", name, got)
		}
	}
	got, err := hidden.Object([]byte(`{"kind":"Status","reason":"NotFound","message":"secrets \"a\" not found"}`))
	if err != nil || !strings.Contains(string(got), "not found") {
		t.Errorf("a message that names the object alone has become %s, %v", got, err)
	}
}

func TestEqualValuesOfSecretsStayEqualInOneRecordingAlone(t *testing.T) {
	hidden, other := redactor(t), redactor(t)
	valueOf := func(of *Redactor, value, field string) string {
		body, _ := json.Marshal(map[string]any{field: map[string]string{"x": value}})
		got, err := of.Object(body)
		if err != nil {
			t.Fatal(err)
		}
		var decoded map[string]map[string]string
		if err := json.Unmarshal(got, &decoded); err != nil {
			t.Fatal(err)
		}
		return decoded[field]["x"]
	}
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.StringN(1, 40, 80).Draw(t, "one")
		two := rapid.StringN(1, 40, 80).Draw(t, "two")
		coded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
		if got, again := valueOf(hidden, coded(one), "data"), valueOf(hidden, coded(one), "data"); got != again {
			t.Fatalf("one value became %s and %s", got, again)
		}
		if (valueOf(hidden, coded(one), "data") == valueOf(hidden, coded(two), "data")) != (one == two) {
			t.Fatalf("%q and %q have become one", one, two)
		}
		if valueOf(hidden, coded(one), "data") == valueOf(other, coded(one), "data") {
			t.Fatal("two recordings have the same hash, so a list of likely values would find it")
		}
		text := valueOf(hidden, one, "stringData")
		if decoded, err := base64.StdEncoding.DecodeString(valueOf(hidden, coded(one), "data")); err != nil || string(decoded) != text || !IsHidden(text) {
			t.Fatalf("data has %s, and stringData %s", decoded, text)
		}
	})
}
