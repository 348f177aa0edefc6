package controller

import (
	"encoding/base64"
	"slices"
	"testing"
)

func TestHiddenValuesAreEqualAndTheirRemovalIsADifference(t *testing.T) {
	hidden := `{"data":{"password":"` + base64.StdEncoding.EncodeToString([]byte("redacted:00")) + `"}}`
	for _, test := range []struct {
		now  string
		want []string
	}{
		{`{"data":{"password":"cGVnYXN1cw=="}}`, nil},
		{`{"data":{"password":null}}`, []string{`  + data.password: null`}},
		{`{"data":{}}`, []string{}},
	} {
		lines := differ([]byte(hidden), []byte(test.now), true)
		if (len(lines) == 0) != (test.want == nil) {
			t.Errorf("%s differs in %q", test.now, lines)
		}
		for _, line := range test.want {
			if !slices.Contains(lines, line) {
				t.Errorf("%s differs in %q, want the line %q", test.now, lines, line)
			}
		}
	}
}

func TestTheAddressOfTheAPIServerIsNoPartOfAnError(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://one:6443/api/v1/pods": it is slow`:                 `Get "/api/v1/pods": it is slow`,
		`Get "https://one/k8s/clusters/c-1/apis/apps/v1/x?a=b": no: EOF`: `Get "/apis/apps/v1/x?a=b": no: EOF`,
		`Post "http://hook.example/path": EOF`:                           `Post "/path": EOF`,
		`no address`:                                                     `no address`,
	} {
		if got := withoutHost(text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}

func TestAPathOfAProxyHidesNoSecretFromARecording(t *testing.T) {
	for url, want := range map[string]bool{
		"/api/v1/namespaces/a/secrets/b":                               true,
		"/api/v1/namespaces/a/serviceaccounts/b/token":                 true,
		"/k8s/clusters/c-1/api/v1/namespaces/a/secrets/b?pretty=false": true,
		"/p/api/v1/secrets":                                            true,
		"/p/api/v1/namespaces/a/serviceaccounts/b/token":               true,
		"/api/v1/namespaces/a/configmaps/b":                            false,
		"/apis/apps/v1/namespaces/secrets/deployments/b":               false,
	} {
		if got := concernsSecrets(url); got != want {
			t.Errorf("%s concerns Secrets: %v, want %v", url, got, want)
		}
	}
}
