package localcluster

import "encoding/json"

// auditPolicy is the name of the file with the API server's audit policy.
const auditPolicy = "audit-policy.yaml"

// auditPolicyOf returns a policy that logs the requests of some users, without their content.
func auditPolicyOf(users []string) []byte {
	type rule struct {
		Level string   `json:"level"`
		Users []string `json:"users,omitempty"`
	}
	policy, err := json.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Rules      []rule `json:"rules"`
	}{"audit.k8s.io/v1", "Policy", []rule{{"Metadata", users}, {Level: "None"}}})
	if err != nil {
		panic(err) // Strings can always be encoded.
	}
	return policy // JSON is YAML.
}
