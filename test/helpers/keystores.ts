/** Keystore files whose keys are public, each from another program. */
export const KEYSTORES = {
  /** Test vector of the Web3 Secret Storage definition. */
  pbkdf2: {
    password: "testpassword",
    privateKey: "0x7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d",
    file: `{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},
"ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46","kdf":"pbkdf2","kdfparams":{"c":262144,
"dklen":32,"prf":"hmac-sha256","salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},
"mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},
"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}`,
  },
  /** Fixture of geth's own tests; the blocks are of the size that geth, cast and ethers use. */
  "scrypt with blocks of 8": {
    password: "foobar",
    privateKey: "0x976f9f7772781ff6d1c93941129d417c49a209c674056a3cf5e27e225ee55fa8",
    file: `{"address":"7ef5a6135f1fd6a02593eedc869c6d41d934aef8","crypto":{"cipher":"aes-128-ctr",
"ciphertext":"1d0839166e7a15b9c1333fc865d69858b22df26815ccf601b28219b6192974e1",
"cipherparams":{"iv":"8df6caa7ff1b00c4e871f002cb7921ed"},"kdf":"scrypt","kdfparams":{"dklen":32,"n":8,"p":16,"r":8,
"salt":"e5e6ef3f4ea695f496b643ebd3f75c0aa58ef4070e90c80c5d3fb0241bf1595c"},
"mac":"6d16dfde774845e4585357f24bce530528bc69f4f84e1e22880d34fa45c273e5"},
"id":"950077c7-71e3-4c44-a4a1-143919141ed4","version":3}`,
  },
  /** Written by ox; eth-account uses blocks of this size. OpenSSL refuses it. */
  "scrypt with blocks of 1": {
    password: "testpassword",
    privateKey: "0x7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d",
    file: `{"crypto":{"cipher":"aes-128-ctr","ciphertext":"759066c1c3d49bfb460c706790bf10e293ff2322fd3c54da2ec0e9e5c1973efa",
"cipherparams":{"iv":"516c71f292a66464de2ad81e5cdbe506"},"kdf":"scrypt","kdfparams":{"dklen":32,"n":65536,"p":1,"r":1,
"salt":"1161b67fd60ae6dc9e0ac473f8ec6f59ad005096841499beeb6c8598082f60e2"},
"mac":"d1dfa80424d04909b78406c12b371dc78f4ce0f3c50c3a0d0bb7d35a782ddbc7"},
"id":"d5187d6d-e067-432e-a527-1f78b57342fb","version":3}`,
  },
} as const;
